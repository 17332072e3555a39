"""Reading AMDGPU assembly: structure, line numbers, names, operands."""

import numpy as np
import pytest

from gemmgen.catalog.unit import UNITS
from gemmgen.emulate.amdgpu import TARGETS, AmdEmulator
from gemmgen.emulate.amdgpu.assembly import Argument, parse
from gemmgen.emulate.amdgpu.decode import BUILDERS
from gemmgen.emulate.amdgpu.names import canonical
from gemmgen.emulate.amdgpu.operands import A, EXEC, NULL, S, V, VCC, constant, parse_operand, slot_name
from gemmgen.emulate.amdgpu.target import target_named
from gemmgen.errors import EmulationError, UnknownName

TEXT = """\
	.amdgcn_target "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"
	.amdhsa_code_object_version 5
	.text
	.protected	scale
	.globl	scale
	.p2align	8
	.type	scale,@function
scale:                                  ; @scale
.Lfunc_begin0:
	.file	0 "." "kernel.hip"
	.file	1 "include" "helper.h"
	.loc	0 7 0                           ; kernel.hip:7:0
; %bb.0:
	s_load_dwordx2 s[0:1], s[4:5], 0x0
	.loc	0 3 5 prologue_end              ; kernel.hip:3:5 @[ kernel.hip:9:3 @[ kernel.hip:12:1 ] ]
	s_waitcnt lgkmcnt(0)                    ; a comment; and another
	.loc	1 44 5                          ; include/helper.h:44:5 @[ kernel.hip:10:3 ]
	v_add_f32_e64 v1, -|v2|, s[0:1] clamp mul:2 // odd, but it reads
	.loc	0 0 0
	ds_read2_b64 v[4:7], v3 offset0:1 offset1:2
.LBB0_1:                                ; =>This Inner Loop Header: Depth=1
	v_mov_b32_dpp v1, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf
	v_dual_mov_b32 v1, v2 :: v_dual_add_f32 v3, 1.0, v4
	s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3
	.loc	0 3 5 prologue_end              ; kernel.hip:3:5 @[ kernel.hip:9:3 @[ kernel.hip:12:1 ] ]
	s_delay_alu instid0(VALU_DEP_2) | instskip(NEXT) | instid1(VALU_DEP_1)
	.loc	0 0 0
	s_cbranch_scc1 .LBB0_1
	s_endpgm
	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel scale
		.amdhsa_group_segment_fixed_size 512
		.amdhsa_kernarg_size 24
		.amdhsa_next_free_vgpr max(totalnumvgprs(scale.num_agpr, scale.num_vgpr), 1, 0)
		.amdhsa_user_sgpr_count 6
	.end_amdhsa_kernel
	.text
.Lfunc_end0:
	.size	scale, .Lfunc_end0-scale
	.type	table,@object
	.section	.rodata,"a",@progbits
	.globl	table
table:
	.short	65529                           ; 0xfff9
	.long	7
	.zero	3
	.byte	-1
	.size	table, 10

	.section	.debug_abbrev,"",@progbits
	.byte	1                               ; Abbreviation Code
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .actual_access:  read_only
        .address_space:  global
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .offset:         8
        .size:           4
        .value_kind:     by_value
      - .offset:         16
        .size:           4
        .value_kind:     hidden_block_count_x
    .group_segment_fixed_size: 512
    .kernarg_segment_size: 24
    .max_flat_workgroup_size: 96
    .name:           scale
    .symbol:         scale.kd
amdhsa.target:   amdgcn-amd-amdhsa--gfx90a
...
	.end_amdgpu_metadata
"""


@pytest.fixture(scope="module")
def module():
    return parse(TEXT)


def statement(module, mnemonic):
    return next(each for each in module.kernels["scale"].body if each.mnemonic == mnemonic)


def test_kernels_descriptors_arguments_and_variables(module):
    kernel = module.kernels["scale"]
    assert module.target == "gfx90a" and module.source_name == "kernel.hip"
    assert kernel.arguments == (
        Argument("global_buffer", 0, 8), Argument("by_value", 8, 4), Argument("hidden_block_count_x", 16, 4),
    )  # fmt: skip
    assert [(each.pointer, each.hidden) for each in kernel.arguments] == [(True, False), (False, False), (False, True)]
    assert kernel.argument_bytes == 24 and kernel.most_threads == 96
    assert kernel.setting("group_segment_fixed_size") == 512 and kernel.setting("not_there", 7) == 7
    with pytest.raises(EmulationError, match="next_free_vgpr of kernel scale is no number"):
        kernel.setting("next_free_vgpr")
    assert module.variables == {"table": b"\xf9\xff\x07\0\0\0\0\0\0\xff"}


def test_labels_and_line_numbers(module):
    kernel = module.kernels["scale"]
    assert [each.mnemonic for each in kernel.body[kernel.labels[".LBB0_1"] :]][0] == "v_mov_b32_dpp"
    assert (statement(module, "s_load_dwordx2").line, statement(module, "s_load_dwordx2").callers) == (7, ())
    assert (statement(module, "s_waitcnt").line, statement(module, "s_waitcnt").callers) == (3, (9, 12))
    # of a helper in another file, the line of the source that calls it; line 0 is as before
    assert (statement(module, "v_add_f32_e64").line, statement(module, "v_add_f32_e64").callers) == (10, ())
    assert statement(module, "ds_read2_b64").line == 10
    for name in ("s_delay_alu", "s_cbranch_scc1"):  # read for the second time, and what line 0 is as before is another place now
        assert (statement(module, name).line, statement(module, name).callers) == (3, (9, 12))
    number = statement(module, "s_endpgm").number
    assert TEXT.splitlines()[number - 1].strip() == "s_endpgm"


def test_statements(module):
    add = statement(module, "v_add_f32_e64")
    assert add.operands == ("v1", "-|v2|", "s[0:1]") and add.modifiers == {"clamp": "", "mul": "2"}
    assert add.text == "v_add_f32_e64 v1, -|v2|, s[0:1] clamp mul:2"
    assert statement(module, "ds_read2_b64").modifiers == {"offset0": "1", "offset1": "2"}
    assert statement(module, "v_mov_b32_dpp").modifiers["quad_perm"] == "[1,0,3,2]"
    dual = statement(module, "v_dual_mov_b32")
    assert dual.operands == ("v1", "v2") and dual.second.mnemonic == "v_dual_add_f32"
    assert dual.second.operands == ("v3", "1.0", "v4")
    assert statement(module, "s_setreg_imm32_b32").operands == ("hwreg(HW_REG_MODE, 4, 2)", "3")
    assert statement(module, "s_delay_alu").operands == ("instid0(VALU_DEP_2) | instskip(NEXT) | instid1(VALU_DEP_1)",)
    assert statement(module, "s_waitcnt").text == "s_waitcnt lgkmcnt(0)"


@pytest.mark.parametrize(
    ("written", "name", "encoding"),
    [
        ("v_add_u32_e32", "v_add_u32", "e32"), ("v_add_nc_u32_e32", "v_add_u32", "e32"),
        ("v_add_co_ci_u32_e64", "v_addc_co_u32", "e64"), ("v_add_u16_sdwa", "v_add_u16", "sdwa"),
        ("v_mov_b32_e64_dpp", "v_mov_b32", "e64_dpp"), ("v_mov_b32_dpp", "v_mov_b32", "dpp"),
        ("v_dual_add_nc_u32", "v_add_u32", ""), ("v_max_num_f32_e32", "v_max_f32", "e32"),
        ("v_pk_max_num_f16", "v_pk_max_f16", ""), ("v_cvt_pk_rtz_f16_f32_e32", "v_cvt_pkrtz_f16_f32", "e32"),
        ("v_mad_co_u64_u32", "v_mad_u64_u32", ""), ("s_and_not1_saveexec_b32", "s_andn2_saveexec_b32", ""),
        ("s_add_co_ci_u32", "s_addc_u32", ""), ("ds_load_2addr_stride64_b32", "ds_read2st64_b32", ""),
        ("ds_store_b16_d16_hi", "ds_write_b16_d16_hi", ""), ("ds_load_b128", "ds_read_b128", ""),
        ("global_load_b128", "global_load_b128", ""), ("v_clz_i32_u32_e32", "v_ffbh_u32", "e32"),
    ],
)  # fmt: skip
def test_one_name_for_what_generations_call_differently(written, name, encoding):
    assert canonical(written) == (name, encoding)
    assert name in BUILDERS


def test_operands():
    assert parse_operand("v[4:7]").slot == V + 4 and parse_operand("v[4:7]").count == 4
    assert parse_operand("a17").slot == A + 17 and parse_operand("s[2:3]").slot == S + 2
    assert parse_operand("vcc_lo") == parse_operand("vcc_lo") and parse_operand("vcc").count == 2
    assert parse_operand("vcc_hi").slot == VCC + 1 and parse_operand("exec_lo").slot == EXEC
    assert parse_operand("null").slot == NULL and parse_operand("off").slot is None
    assert parse_operand("v3.h").half == "h" and parse_operand("ttmp9").slot > parse_operand("s105").slot
    both = parse_operand("-|v2|")
    assert both.negated and both.absolute and both.slot == V + 2
    assert parse_operand("sext(v2)").extended and parse_operand("neg(s1)").negated
    assert parse_operand("-5").constant == -5 and not parse_operand("-5").negated
    assert parse_operand("0x45000000").literal and not parse_operand("64").literal
    assert parse_operand("table@rel32@lo+4").symbol == ("table", "lo")
    assert [slot_name(slot) for slot in (V + 3, A + 4, S + 5, VCC, EXEC + 1)] == [
        "register v3", "register a4", "register s5", "register vcc_lo", "register exec_hi",
    ]  # fmt: skip


def test_constants_take_the_form_of_their_operand():
    value = lambda text, dtype: constant(parse_operand(text), np.dtype(dtype))  # noqa: E731
    assert value("1.0", np.float32) == 1 and value("1.0", np.float16).view(np.uint16) == 0x3C00
    assert value("0.5", np.uint32) == 0x3F000000  # floating point by its bits
    assert value("1", np.float32).view(np.uint32) == 1  # and integers by theirs
    assert value("-1", np.uint64) == 2**64 - 1 and value("-16", np.int32) == -16
    assert value("0x3ff00000", np.float64) == 1  # a literal gives the upper half
    assert value("0.15915494", np.float64) == 1 / (2 * np.pi)
    assert value("-4.0", np.float32) == -4 and value("0x40490fdb", np.float32) == np.float32(np.pi)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("\t.amdhsa_kernel scale", "\t.amdhsa_kernel other", "descriptor of a kernel that has no code"),
        ("\t.amdhsa_kernel scale\n", "\t.other scale\n", "holds no kernel"),
        ("\t.long\t7\n", "\t.long\tscale\n", "initialised with what is no number"),
        ("\t.long\t7\n", "\t.uleb128\t7\n", "declared in a way that is not supported"),
        (".name:           scale", ".name:           other", "do not tell the kernel's arguments"),
        ("clamp mul:2", "clamp 2:mul", "modifier cannot be read"),
        (".amdgcn_target", ".amdgcn_other", "cannot be read as AMDGPU assembly"),
    ],
)  # fmt: skip
def test_what_cannot_be_read(old, new, match):
    assert old in TEXT
    with pytest.raises(EmulationError, match=match):
        parse(TEXT.replace(old, new, 1))


def test_targets():
    assert target_named("gfx942").wave == 64 and target_named("gfx1100").wave == 32
    with pytest.raises(UnknownName, match="unknown target") as error:
        target_named("gfx941")
    assert "gfx942" in error.value.remedy and error.value.needs == "one of: " + ", ".join(sorted(TARGETS))


def test_arguments_in_registers_at_launch():
    """Kernel-argument preload: the segment's words lie in scalar registers, behind its address."""
    body = """	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.text
	.type	k,@function
k:
	v_mov_b32_e32 v1, s3
	v_lshlrev_b32_e32 v0, 2, v0
	v_mov_b32_e32 v2, s4
	v_mov_b32_e32 v3, s5
	v_lshl_add_u32 v1, s6, 4, v1
	v_add_co_u32_e32 v2, vcc, v2, v0
	v_addc_co_u32_e32 v3, vcc, 0, v3, vcc
	global_store_dword v[2:3], v1, off
	s_endpgm
	.section	.rodata,"a",@progbits
	.amdhsa_kernel k
		.amdhsa_group_segment_fixed_size 0
		.amdhsa_kernarg_size 16
		.amdhsa_user_sgpr_count 6
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_user_sgpr_kernarg_preload_length 4
		.amdhsa_user_sgpr_kernarg_preload_offset 0
		.amdhsa_system_sgpr_workgroup_id_x 1
	.end_amdhsa_kernel
	.amdgpu_metadata
amdhsa.kernels:
  - .args:
      - .offset:         0
        .size:           4
        .value_kind:     by_value
      - .offset:         4
        .size:           4
        .value_kind:     by_value
      - .offset:         8
        .size:           8
        .value_kind:     global_buffer
    .kernarg_segment_size: 16
    .max_flat_workgroup_size: 64
    .name:           k
	.end_amdgpu_metadata
"""
    with AmdEmulator(body, UNITS.get("cdna3"), processes=1) as machine:
        out = machine.alloc(256, name="out")
        machine.launch("k", (1, 1, 1), (64, 1, 1), 0, [5, 7, out])
        assert (machine.read(out, np.int32, 64) == 7).all()
        with pytest.raises(EmulationError, match="reaches outside its buffer"):
            machine.launch("k", (2, 1, 1), (64, 1, 1), 0, [5, 7, machine.alloc(252, name="short")])
