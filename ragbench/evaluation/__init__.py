"""Every perspective in one evaluation."""
