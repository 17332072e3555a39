"""Split schemes: how FP32 operands become words and which word products are kept.

A scheme is data. The device split, the NumPy reference split and the error
bound all derive from the row, so a new scheme is a new TOML file.

Word `i` of an element x (times its row's power of two, where the scheme
normalises) is

    w_i = round_i( D_f(i) * 2^s_i ),     D_0 = x,   D_(i+1) = D_f(i) - w_i 2^-s_i

(or 0, where the word flushes and that is below its smallest normal number): it is taken from D_f(i), which a word's `of` names: what the word
before leaves, as a rule (f(i) = i: the residual chain), what another earlier word leaves, or the element again (f(i) = 0). The product of
word i of A with word j of B carries the factor 2^-(s_i + s_j). Products that share an accumulator must share that factor, and the words' type.

Words have a type each, and B may have other words than A. They are numbers of a floating-point format or, of type `s8`, integers: fixed-point
digits of the element, of which the last stands for 2^-s of its scaled row whatever the element's size. What such words leave out is therefore
told relative to the largest element of the row of A or column of B (`Family.by_row`), their sums are INT32 and exact, and a word that saturates
leaves the rest to the next one.

Where the exponent is that of a tile (`normalize = "tile"`), each `tile_k` consecutive k of one row or column have one of their own. Sums in INT32
then end with the tile: they are converted, recombined and added up in FP32, tile after tile (`Tiles.moved`).

Where it is that of a run (`normalize = "run"`), each `tile_k` consecutive k, many of them, have one, too. A run is so long that its sums go on in one
unit, and where it ends the sum is multiplied by the power of two between its unit and the next run's.

With w_i = D_f(i) - D_(i+1), and E for B's, what the kept products fall short of x y is a sum of terms D_p E_q (`Precision.missing`).

A row with `moduli` in place of words and products is of the other family (`gemmgen.catalog.residues`): word i of an element, scaled to an integer, is
its residue modulo m_i, products are those of words of one modulus, and the sums are put together by the Chinese remainder theorem.

| file | what it holds |
| --- | --- |
| `word` | words, products and accumulators |
| `sums` | how the accumulators' sums become one |
| `family` | what floating-point words, integers, tiles of k and residues each change, in one object |
| `precision` | what words leave of an element, and what a product of words misses |
| `row` | a scheme: a row that proves itself |
| `lookup` | the table, and the scheme of those who name none |
"""

from gemmgen.catalog.scheme.family import MOST_TILE_EXPONENT, OUTLIER, Family, Integers, ResidueWords, Runs, Tiles, WideResidueWords
from gemmgen.catalog.scheme.lookup import SCHEMES, preferred_scheme, with_runs
from gemmgen.catalog.scheme.row import RUNS, Scheme
from gemmgen.catalog.scheme.sums import OFFSET, Recombination, Sums
from gemmgen.catalog.scheme.word import Accumulator, Product, Word

__all__ = [
    "MOST_TILE_EXPONENT", "OFFSET", "OUTLIER", "RUNS", "SCHEMES",
    "Accumulator", "Family", "Integers", "Product", "Recombination", "ResidueWords", "Runs", "Scheme",
    "Sums", "Tiles", "WideResidueWords", "Word", "preferred_scheme", "with_runs",
]
