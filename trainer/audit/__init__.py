"""The audit: what adversaries who retrain on an artefact's output learn, as audit.json."""
