"""One name for what generations call differently: mostly GFX9's, since its names tell
the operation without the later ones' particles (`_nc_`, `_co_`, `_num_`)."""

from __future__ import annotations

import re
from functools import cache

_ENCODINGS = re.compile(r"(.*?)((?:_e32|_e64)?(?:_dpp|_sdwa)?)$")

_SAME = {
    "v_add_co_ci_u32": "v_addc_co_u32",
    "v_sub_co_ci_u32": "v_subb_co_u32",
    "v_subrev_co_ci_u32": "v_subbrev_co_u32",
    "v_mad_co_u64_u32": "v_mad_u64_u32",
    "v_mad_co_i64_i32": "v_mad_i64_i32",
    "v_cvt_pk_rtz_f16_f32": "v_cvt_pkrtz_f16_f32",
    "v_cvt_nearest_i32_f32": "v_cvt_rpi_i32_f32",
    "v_cvt_floor_i32_f32": "v_cvt_flr_i32_f32",
    "v_clz_i32_u32": "v_ffbh_u32",
    "v_cls_i32": "v_ffbh_i32",
    "v_ctz_i32_b32": "v_ffbl_b32",
    "v_mul_dx9_zero_f32": "v_mul_legacy_f32",
    "s_add_co_u32": "s_add_u32",
    "s_sub_co_u32": "s_sub_u32",
    "s_add_co_i32": "s_add_i32",
    "s_sub_co_i32": "s_sub_i32",
    "s_add_co_ci_u32": "s_addc_u32",
    "s_sub_co_ci_u32": "s_subb_u32",
    "s_addk_co_i32": "s_addk_i32",
    "s_ctz_i32_b32": "s_ff1_i32_b32",
    "s_ctz_i32_b64": "s_ff1_i32_b64",
    "s_clz_i32_u32": "s_flbit_i32_b32",
    "s_clz_i32_u64": "s_flbit_i32_b64",
    "s_cls_i32": "s_flbit_i32",
    "s_cls_i32_i64": "s_flbit_i32_i64",
    "s_add_nc_u64": "s_add_u64",
    "s_sub_nc_u64": "s_sub_u64",
}
_PARTS = (
    (re.compile(r"^v_(add|sub|subrev)_nc_"), r"v_\1_"),
    (re.compile(r"^(v|s)_(max|min)_num_(f\d+)$"), r"\1_\2_\3"),
    (re.compile(r"^v_(med3|max3|min3)_num_(f\d+)$"), r"v_\1_\2"),
    (re.compile(r"^v_pk_(max|min)_num_f16$"), r"v_pk_\1_f16"),
    (re.compile(r"^s_(and|or)_not1_(.*)$"), r"s_\1n2_\2"),
    (re.compile(r"^s_(and|or)_not0_(.*)$"), r"s_\1n1_\2"),
    (re.compile(r"^ds_load_"), "ds_read_"),
    (re.compile(r"^ds_store_"), "ds_write_"),
    (re.compile(r"^ds_(read|write)_2addr_stride64_"), r"ds_\g<1>2st64_"),
    (re.compile(r"^ds_(read|write)_2addr_"), r"ds_\g<1>2_"),
)


@cache  # of a few hundred names
def canonical(mnemonic: str) -> tuple[str, str]:
    """(name, encoding): `v_add_nc_u32_e32` is (`v_add_u32`, `e32`)."""
    name, encoding = _ENCODINGS.match(mnemonic.replace("v_dual_", "v_")).groups()
    name = _SAME.get(name, name)
    for pattern, replacement in _PARTS:
        name = pattern.sub(replacement, name)
    return name, encoding.lstrip("_")
