"""The dashboard: pages that are rendered here, without a script in them."""
