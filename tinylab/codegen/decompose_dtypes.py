def has_foreign_dtypes(sink, ren): return False
def decompose_dtypes(sink, ren): return sink
