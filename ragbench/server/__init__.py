"""The HTTP API and the dashboard. They add nothing that the library and the commands cannot do."""
