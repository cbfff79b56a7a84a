"""Statistics of attacks: metrics, intervals, certificates, image moments."""
