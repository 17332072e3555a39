"""Matrix instructions, and what stands in for one: shape, types, and which lane holds element (i, j) where.

| file | what it holds |
| --- | --- |
| `map` | which lane holds which element, and the proof that a map covers its tile |
| `expressions` | the same as C, for templates |
| `encoding` | the words of bits that descriptors of shared memory and instructions are |
| `row` | the file of a fragment, an instruction with its maps, and its proof |
| `fragment` | a row with what follows from it, and its wider and deeper ones |
| `lookup` | the table, and the fragments that serve a word type and policy |
"""

from gemmgen.catalog.fragment.encoding import Descriptor, InstructionWord
from gemmgen.catalog.fragment.fragment import Fragment
from gemmgen.catalog.fragment.lookup import FRAGMENTS, candidates, find, shapes
from gemmgen.catalog.fragment.map import FragmentMap

__all__ = ["FRAGMENTS", "Descriptor", "Fragment", "FragmentMap", "InstructionWord", "candidates", "find", "shapes"]
