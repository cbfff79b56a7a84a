"""Stand-ins for boards: an arm64 Debian under qemu's user emulation, and a whole virtual board that boots."""
