if __name__ == "trainer":
    raise ImportError("trainer is imported as edgeveil.trainer since 0.2; CHANGELOG.md lists where each module moved")
