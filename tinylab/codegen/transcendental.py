def has_transcendental(sink, ren): return False
def lower_transcendental(sink, ren): return sink
