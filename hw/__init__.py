"""The hw room of Tokenpath; import it as ``tokenpath.hw``."""

if __name__ != "tokenpath.hw":
    raise ImportError(
        f"import tokenpath.hw, not {__name__!r}: the folder is linked into the package"
    )
