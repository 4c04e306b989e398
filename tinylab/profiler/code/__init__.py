"""Code objects: sections, instruction sizes, and text where a disassembler is found."""
