if __name__ == "devices":
    raise ImportError("devices is imported as edgeveil.devices since 0.2; CHANGELOG.md lists where each module moved")
