"""The dashboard: pages that are rendered here, without a script of their own."""
