"""The sim room of Tokenpath; import it as ``tokenpath.sim``."""

if __name__ != "tokenpath.sim":
    raise ImportError(
        f"import tokenpath.sim, not {__name__!r}: the folder is linked into the package"
    )
