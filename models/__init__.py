if __name__ == "models":
    raise ImportError("models is imported as edgeveil.models since 0.2; CHANGELOG.md lists where each module moved")
