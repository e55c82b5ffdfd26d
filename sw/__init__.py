"""The sw room of Tokenpath; import it as ``tokenpath.sw``."""

if __name__ != "tokenpath.sw":
    raise ImportError(
        f"import tokenpath.sw, not {__name__!r}: the folder is linked into the package"
    )
