"""What several tests need: made runs, histories, stand-ins, a lab in namespaces."""
