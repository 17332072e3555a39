"""The analysis of lanes that run apart, on machine code in nvdisasm's words; tests/compile has real kernels."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gemmgen.build import sass
from gemmgen.build.convergence import apart
from gemmgen.errors import BuildError


def text(code: str, name: str = "k") -> str:
    """Lines of code, each an instruction or a label, as a kernel."""
    rows, at = [f'\t.section\t.text.{name},"ax",@progbits', f"{name}:", f".text.{name}:"], 0
    for line in filter(None, (line.strip() for line in code.splitlines())):
        if line.endswith(":") or line.startswith("//##"):
            rows.append(line if line.endswith(":") else "\t" + line)
            continue
        rows.append(f"        /*{at:04x}*/                   {line} ;")
        at += 16
    return "\n".join(rows)


def faults(code: str) -> list[tuple[int, int]]:
    """(instruction, branch) of each fault, as indices of the instructions."""
    return [(fault.address // 16, fault.branch // 16) for fault in apart(text(code))]


LANE = "S2R R0, SR_TID.X\nLOP3.LUT R10, R0, 0x1f, RZ, 0xc0, !PT\nISETP.GT.AND P0, PT, R10, 0x3, PT\n"
"""P0 differs from lane to lane; three instructions."""


@pytest.mark.parametrize(("code", "found"), [
    ("@P0 BRA `(.L_1)\nNOP\n.L_1:\nBAR.SYNC.DEFER_BLOCKING 0x0\nEXIT", [(5, 3)]),
    ("BSSY B0, `(.L_2)\n@P0 BRA `(.L_1)\nNOP\n.L_1:\nBSYNC B0\n.L_2:\nBAR.SYNC.DEFER_BLOCKING 0x0\nEXIT", []),
    ("@P0 BRA `(.L_1)\nBSSY B0, `(.L_1)\nNOP\n.L_1:\nBSYNC B0\nBAR.SYNC 0x0\nEXIT", [(7, 3)]),  # filled by a part of a warp
    ("BSSY B0, `(.L_2)\n@P0 BRA `(.L_1)\nNOP\n.L_1:\nBSYNC B1\n.L_2:\nBAR.SYNC 0x0\nEXIT", [(7, 4)]),  # another's
    ("@P0 BRA `(.L_1)\nNOP\n.L_1:\nWARPSYNC.ALL\nBAR.SYNC 0x0\nEXIT", []),
    ("@P0 BRA `(.L_1)\nNOP\n.L_1:\nWARPSYNC 0xf\nBAR.SYNC 0x0\nEXIT", [(6, 3)]),
    ("@P0 BRA `(.L_1)\nNOP\n.L_1:\nMOV R2, 0xffffffff\nWARPSYNC R2\nBAR.SYNC 0x0\nEXIT", []),
    ("@P0 BRA `(.L_1)\nNOP\n.L_1:\n@P0 WARPSYNC.ALL\nBAR.SYNC 0x0\nEXIT", [(6, 3)]),
    ("@P0 EXIT\nBAR.SYNC 0x0\nEXIT", []),  # those that are left are all
    ("@P0 BAR.SYNC 0x0\nEXIT", [(3, 3)]),
    ("@P0 BRA `(.L_1)\nSHFL.BFLY PT, R2, R10, 0x1, 0x1f\n.L_1:\nEXIT", [(4, 3)]),
    ("@P0 BRA `(.L_1)\nUCGABAR_WAIT\n.L_1:\nEXIT", [(4, 3)]),
    ("@P0 BRA `(.L_1)\nSYNCS.ARRIVE.TRANS64 RZ, [R10+URZ], RZ\n.L_1:\nEXIT", []),  # a lane alone may
    ("BSSY B0, `(.L_2)\n@P0 BREAK B0\n@P0 BRA `(.L_3)\n.L_2:\nBSYNC B0\nBAR.SYNC 0x0\n.L_3:\nEXIT", [(7, 5)]),  # some have left
    ("BSSY B0, `(.L_2)\n@P0 BRA `(.L_1)\n.L_2:\nBSYNC B0\nBAR.SYNC 0x0\nEXIT\n.L_1:\nBREAK B0\nEXIT", [(6, 4)]),  # on a way of their own
    ("@P0 BRA `(.L_1)\nNOP\n.L_1:\nBSSY B0, `(.L_2)\nBSYNC B0\n.L_2:\nBAR.SYNC 0x0\nEXIT", [(7, 3)]),  # each part waits for itself
    ("ISETP.GT.AND P1, PT, R2, c[0x0][0x210], PT\n@P1 BRA `(.L_1)\n@P0 BRA `(.L_1)\nNOP\n.L_1:\nBAR.SYNC 0x0\nEXIT", [(7, 5)]),  # or all at once
    ("BSSY B0, `(.L_2)\nBMOV.32.CLEAR R9, B0\n@P0 BRA `(.L_1)\nNOP\n.L_1:\nBMOV.32 B0, R9\nBSYNC B0\n.L_2:\nBAR.SYNC 0x0\nEXIT", []),
    ("BSSY B0, `(.L_2)\nBMOV.32.CLEAR RZ, B0\n@P0 BRA `(.L_1)\nNOP\n.L_1:\nBSYNC B0\n.L_2:\nBAR.SYNC 0x0\nEXIT", [(8, 5)]),
    ("@P0 BRA `(.L_1)\nNOP\n.L_1:\nBRA.DIV ~URZ, `(.L_2)\nBAR.SYNC 0x0\n.L_2:\nEXIT", []),
    ("@P0 BRA `(.L_1)\nNOP\n.L_1:\nBRA.CONV ~URZ, `(.L_2)\nWARPSYNC.ALL\n.L_2:\nBAR.SYNC 0x0\nEXIT", []),
    ("BRX R10 -0x40 (*\"BRANCH_TARGETS .L_1,.L_2\"*)\n.L_1:\nNOP\n.L_2:\nBAR.SYNC 0x0\nEXIT", [(5, 3)]),
], ids=str)
def test_a_barrier_is_reached_by_whole_warps_or_told(code, found):
    assert faults(LANE + code) == found


PARTLY = "{whole}\nBSSY B0, `(.L_8)\n@P0 BRA `(.L_7)\n{part}\n.L_7:\nBSYNC B0\n.L_8:\nISETP.NE.AND P1, PT, R2, RZ, PT"
"""P1 depends on R2, which a part of the warp wrote anew."""
SAME = {
    "a parameter": "ISETP.GT.AND P1, PT, R2, c[0x0][0x210], PT",
    "the block": "S2R R2, SR_CTAID.X\nISETP.GT.AND P1, PT, R2, 0x3, PT",
    "threads of whole warps": "ISETP.GE.AND P1, PT, R0, 0x40, PT",
    "threads up to the last of a warp": "ISETP.GT.AND P1, PT, R0, 0x3f, PT",
    "a thread's distance from a warp's end": "VIADD R2, R0, 0x7f\nISETP.GT.U32.AND P1, PT, R2, 0xfe, PT",
    "the warp": "SHF.R.U32.HI R2, RZ, 0x5, R0\nISETP.NE.AND P1, PT, R2, 0x1, PT",
    "the warp, of a signed number": "SHF.R.S32.HI R2, RZ, 0x1f, R0\nLEA.HI R2, R2, R0, RZ, 0x5\nSHF.R.S32.HI R2, RZ, 0x5, R2\nISETP.NE.AND P1, PT, R2, 0x1, PT",
    "a warp's first thread": "LOP3.LUT R2, R0, 0xffffffe0, RZ, 0xc0, !PT\nISETP.NE.AND P1, PT, R2, RZ, PT",
    "a vote": "VOTE.ANY P1, P0",
    "a lane's word to all": "SHFL.IDX PT, R2, R10, RZ, 0x1f\nISETP.NE.AND P1, PT, R2, RZ, PT",
    "one address": "LDG.E R2, desc[UR4][R4.64]\nISETP.NE.AND P1, PT, R2, RZ, PT",
    "a byte beside others": "PRMT R10, RZ, 0x7610, R10\nLOP3.LUT P1, RZ, R10, 0xff, RZ, 0xc0, !PT",
    "the stack": "MOV R2, 0x1\nSTL [R1+0x8], R2\nMOV R2, R0\nLDL R2, [R1+0x8]\nISETP.NE.AND P1, PT, R2, RZ, PT",
    "a saved predicate": "P2R R2, PR, RZ, 0x2\nISETP.NE.AND P1, PT, R2, RZ, PT",
    "a register beside a narrow result": "MOV R3, 0x1\nF2F.F32.F64 R2, R10\nISETP.NE.AND P1, PT, R3, RZ, PT",
    "registers beside those of two matrices": "MOV R5, 0x1\nMOV R6, 0x1\nLDSM.16.M88.2 R3, [R10]\nISETP.NE.AND P1, PT, R5, R6, PT",
    "a register beside that of one matrix": "MOV R4, 0x1\nLDSM.16.M88 R3, [R10]\nISETP.NE.AND P1, PT, R4, RZ, PT",
    "what was written under the same guard": "MOV R2, R0\n@P2 MOV R2, 0x1\n@P2 ISETP.NE.AND P1, PT, R2, RZ, PT",
    "what a guard wrote, where its branch goes": "MOV R2, R0\n@P2 MOV R2, 0x1\n@P2 BRA `(.L_7)\nEXIT\n.L_7:\nISETP.NE.AND P1, PT, R2, RZ, PT",
    "a parameter that a part of the warp loaded, too": PARTLY.format(whole="LDC R2, c[0x0][0x238]", part="MOV R2, c[0x0][0x238]"),
    "a number that a part of the warp was given, too": PARTLY.format(whole="MOV R2, 0x1", part="MOV R2, 0x1"),
    "a parameter by way of a uniform register": PARTLY.format(
        whole="ULDC UR4, c[0x0][0x238]\nIMAD.U32 R2, RZ, RZ, UR4\nULDC UR8, c[0x0][0x238]\nIMAD R9, R9, UR4, RZ", part="IMAD.U32 R2, RZ, RZ, UR8"),
    "threads and a warp": "VIADD R2, R0, 0x20\nISETP.GE.AND P1, PT, R2, 0x40, PT",
    "a distance that wraps by a warp": "VIADD R2, R0, 0xffffffe0\nISETP.GT.U32.AND P1, PT, R2, 0x1f, PT",
    "threads by four": "SHF.R.U32.HI R2, RZ, 0x2, R0\nISETP.GE.AND P1, PT, R2, 0x8, PT",
    "a uniform register that gets another value": "ULDC UR4, c[0x0][0x238]\nUIADD3 UR4, UR4, 0x1, URZ\nISETP.NE.AND P1, PT, R2, UR4, PT",
}
DIFFERENT = {
    "threads within a warp": "ISETP.GE.AND P1, PT, R0, 0x41, PT",
    "threads up to one within a warp": "ISETP.GT.AND P1, PT, R0, 0x40, PT",
    "one thread": "ISETP.NE.AND P1, PT, R0, 0x20, PT",
    "a distance within a warp": "VIADD R2, R0, 0x7e\nISETP.GT.U32.AND P1, PT, R2, 0xfe, PT",
    "a distance that wraps": "VIADD R2, R0, 0xfffffff1\nISETP.GT.U32.AND P1, PT, R2, 0x30, PT",
    "half a warp": "SHF.R.U32.HI R2, RZ, 0x4, R0\nISETP.NE.AND P1, PT, R2, 0x1, PT",
    "lanes": "LOP3.LUT R2, R0, 0xfffffff0, RZ, 0xc0, !PT\nISETP.NE.AND P1, PT, R2, RZ, PT",
    "a neighbour's word": "SHFL.BFLY PT, R2, R10, 0x1, 0x1f\nISETP.NE.AND P1, PT, R2, RZ, PT",
    "a lane's word to each": "SHFL.IDX PT, R2, R10, R0, 0x1f\nISETP.NE.AND P1, PT, R2, RZ, PT",
    "an address each": "LDS R2, [R10]\nISETP.NE.AND P1, PT, R2, RZ, PT",
    "an atomic": "ATOMG.E.ADD.STRONG.GPU PT, R2, desc[UR4][R4.64], R5\nISETP.NE.AND P1, PT, R2, RZ, PT",
    "the bits beside a byte": "PRMT R10, RZ, 0x7610, R10\nLOP3.LUT P1, RZ, R10, 0x1ffff, RZ, 0xc0, !PT",
    "a stack of which the place is computed": "MOV R2, 0x1\nSTL [R1+0x8], R2\nSTL [R0], R0\nLDL R2, [R1+0x8]\nISETP.NE.AND P1, PT, R2, RZ, PT",
    "another saved predicate": "P2R R2, PR, RZ, 0x1\nISETP.NE.AND P1, PT, R2, RZ, PT",
    "the upper half of a product": "IMAD.WIDE R2, R0, 0x4, R4\nISETP.NE.AND P1, PT, R3, RZ, PT",
    "the upper half of a conversion": "F2F.F64.F32 R2, R10\nISETP.NE.AND P1, PT, R3, RZ, PT",
    "a sum's carry": "IADD3 R2, P1, R0, R0, RZ",
    "what another guard wrote": "MOV R2, R0\n@P2 MOV R2, 0x1\n@P3 ISETP.NE.AND P1, PT, R2, RZ, PT",
    "what a guard wrote, where its branch does not go": "MOV R2, R0\n@P2 MOV R2, 0x1\n@!P2 BRA `(.L_7)\nEXIT\n.L_7:\nISETP.NE.AND P1, PT, R2, RZ, PT",
    "what a part of the warp was given": PARTLY.format(whole="MOV R2, RZ", part="MOV R2, 0x1"),
    "another parameter of a part of the warp": PARTLY.format(whole="LDC R2, c[0x0][0x238]", part="LDC R2, c[0x0][0x23c]"),
    "a byte of the parameter": PARTLY.format(whole="LDC R2, c[0x0][0x238]", part="LDC.U8 R2, c[0x0][0x238]"),
    "a part's place in a table": PARTLY.format(whole="LDC R2, c[0x0][R4+0x238]", part="LDC R2, c[0x0][R4+0x238]"),
    "a word that memory had later": PARTLY.format(whole="LDG.E R2, desc[UR4][R4.64]", part="LDG.E R2, desc[UR4][R4.64]"),
    **{f"a uniform register that {how}": PARTLY.format(
        whole=f"ULDC UR4, c[0x0][0x238]\nIMAD.U32 R2, RZ, RZ, UR4\n{written}", part=f"IMAD.U32 R2, RZ, RZ, {register}") for how, register, written in (
        ("a sum changed", "UR4", "UIADD3 UR4, UR4, 0x1, URZ"), ("a pair reached", "UR5", "ULDC UR5, c[0x0][0x238]\nULDC.64 UR4, c[0x0][0x210]"),
        ("a vector register set", "UR4", "R2UR UR4, R3"), ("a guard kept", "UR4", "ULDC UR4, c[0x0][0x23c]\n@P2 ULDC UR4, c[0x0][0x238]"),
        ("a lane was elected into", "UR4", "ELECT P2, UR4, PT"))},
    "a uniform register that a part of the warp loaded": PARTLY.format(whole="LDC R2, c[0x0][0x238]", part="ULDC UR4, c[0x0][0x238]\nIMAD.U32 R2, RZ, RZ, UR4"),
    "the last of two matrices": "LDSM.16.M88.2 R2, [R10]\nISETP.NE.AND P1, PT, R3, RZ, PT",
    "the last of four matrices": "LDSM.16.MT88.4 R2, [R10]\nISETP.NE.AND P1, PT, R5, RZ, PT",
    **{f"{what}, of which a part of the warp computed another": PARTLY.format(
        whole=f"S2R R3, SR_LANEID\n{made}, R0{rest}", part=f"{made}, R3{rest}").replace("NE.AND P1, PT, R2, RZ", f"GE.AND P1, PT, R2, {edge}")
       for what, made, rest, edge in (("threads and a warp", "VIADD R2", ", 0x20", "0x40"), ("threads by four", "SHF.R.U32.HI R2, RZ, 0x2", "", "0x8"))},
    "the byte above two": "PRMT R10, RZ, 0x7610, R10\nPRMT R10, R10, 0x7772, RZ\nLOP3.LUT P1, RZ, R10, 0xff, RZ, 0xc0, !PT",
    "a product of the matrix unit": "HMMA.16816.F32 R4, R8, R12, R4\nISETP.NE.AND P1, PT, R7, RZ, PT",
}


@pytest.mark.parametrize(("deciding", "differs"), [(code, differs) for cases, differs in ((SAME, False), (DIFFERENT, True)) for code in cases.values()],
                         ids=[*SAME, *DIFFERENT])
def test_lanes_part_where_what_decides_differs_between_them(deciding, differs):
    assert bool(faults(LANE + deciding + "\n@P1 BRA `(.L_1)\nBAR.SYNC 0x0\n.L_1:\nEXIT")) == differs


SPLIT_IN_A_LOOP = """
    S2R R0, SR_TID.X
    MOV R38, RZ
    BSSY B0, `(.L_9)
    .L_6:
    ISETP.LT.AND P2, PT, R38, c[0x0][0x210], PT
    @P2 BRA `(.L_3)
    ISETP.GE.AND P0, PT, R0, c[0x0][0x214], PT
    BSSY B1, `(.L_2)
    @!P0 BRA `(.L_1)
    STS.64 [R23], R20
    .L_1:
    BSYNC B1
    .L_2:
    @P0 BRA `(.L_4)
    STG.E.64 desc[UR12][R22.64], R20
    .L_4:
    //## File "/gemmgen/kernel.cu", line 414
    BAR.SYNC.DEFER_BLOCKING 0x0
    .L_3:
    IADD3 R38, R38, 0x1, RZ
    ISETP.LT.AND P1, PT, R38, c[0x0][0x218], PT
    @P1 BRA `(.L_6)
    BSYNC B0
    .L_9:
    EXIT
"""
"""What NVRTC 13.5 made of a pass that was wrong on an H200, in short: lanes that store and others meet at the barrier, but BSYNC stands behind the loop."""


def test_lanes_that_meet_behind_a_loop_do_not_meet_at_its_barrier():
    [fault] = apart(text(SPLIT_IN_A_LOOP, "split"))
    assert (fault.kernel, fault.line, fault.instruction) == ("split", 414, "BAR.SYNC.DEFER_BLOCKING 0x0") and fault.branch == 10 * 16
    assert str(fault) == ("kernel split, line 414: a part of a warp may reach BAR.SYNC.DEFER_BLOCKING 0x0 at 0xc0: lanes part at 0xa0, "
                          "and neither BSYNC nor WARPSYNC brings them together")
    assert not faults(SPLIT_IN_A_LOOP.replace("@P0 BRA `(.L_4)", "BSSY B1, `(.L_5)\n@P0 BRA `(.L_4)").replace("BAR.SYNC", "BSYNC B1\n.L_5:\nBAR.SYNC"))


def test_a_function_keeps_each_callers_lanes_apart():
    """One caller comes with whole warps and passes a barrier afterwards, the other with a part."""
    code = LANE + """
        BSSY B0, `(.L_2)
        @P0 BRA `(.L_1)
        CALL.REL.NOINC `($root)
        .L_1:
        BSYNC B0
        .L_2:
        CALL.REL.NOINC `($root)
        BAR.SYNC 0x0
        EXIT
        $root:
        {}
        RET.REL.NODEC R28 `(k)
    """
    assert not faults(code.format("NOP"))
    assert faults(code.format("SHFL.BFLY PT, R2, R10, 0x1, 0x1f")) == [(10, 4)]


def test_the_compilers_own_tickets_are_no_fault_but_other_words_to_lanes_are():
    """A lane draws for all that are there, and they read what it drew."""
    code = LANE + "@P0 BRA `(.L_1)\n{}SHFL.IDX PT, R15, R23, R26, 0x1f\n.L_1:\nEXIT"
    assert not faults(code.format("ATOMG.E.ADD.STRONG.GPU PT, R23, desc[UR8][R24.64], R23\n"))
    assert faults(code.format("")) == [(4, 3)]


@pytest.mark.parametrize(("code", "problem"), [
    ("CALL.ABS.NOINC R2\nEXIT", "calls in a way"), ("BRA `(.L_7)\nEXIT", "no label"), (".L_1:\n$f:\nCALL.REL.NOINC `($f)\nEXIT", "calls in a way"),
])
def test_code_that_cannot_be_followed_is_refused(code, problem):
    with pytest.raises(BuildError, match=problem) as caught:
        apart(text(code))
    assert "kernel k" in caught.value.where and caught.value.got and caught.value.needs and caught.value.remedy


def test_a_line_that_is_no_instruction_is_refused():
    with pytest.raises(BuildError, match="no instruction") as caught:
        apart(text("NOP") + "\n        /*0010*/  ??? ;")
    assert "???" in caught.value.got and caught.value.remedy


def test_without_nvdisasm_what_to_install_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("GEMMGEN_NVDISASM", str(tmp_path / "none"))
    with pytest.raises(BuildError, match="not found") as caught:
        sass.disassemble(b"")
    assert caught.value.got == str(tmp_path / "none") and "pip install nvidia-cuda-nvdisasm" in caught.value.remedy


@pytest.mark.parametrize(("wheel", "toolkit", "found"), [(True, True, "wheel/cu13"), (False, True, "toolkit")])
def test_the_wheels_nvdisasm_comes_before_a_toolkits(wheel, toolkit, found, monkeypatch, tmp_path):
    for there, folder in ((wheel, "wheel/cu13"), (toolkit, "toolkit")):
        (tmp_path / folder / "bin").mkdir(parents=True)
        if there:
            (tmp_path / folder / "bin/nvdisasm").touch()
    monkeypatch.delenv("GEMMGEN_NVDISASM", raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    monkeypatch.setattr(sass.importlib.util, "find_spec", lambda name: type("Spec", (), {"submodule_search_locations": [str(tmp_path / "wheel")]}))
    assert sass.find_disassembler() == tmp_path / found / "bin/nvdisasm"


def test_a_cubin_that_nvdisasm_refuses_is_told_without_the_files_name(monkeypatch):
    monkeypatch.setattr(sass, "find_disassembler", lambda: Path("nvdisasm"))
    monkeypatch.setattr(subprocess, "run", lambda command, **rest: subprocess.CompletedProcess(command, 1, "", f"nvdisasm fatal : {command[-1]} is damaged"))
    with pytest.raises(BuildError, match="refused") as caught:
        sass.disassemble(b"no cubin")
    assert caught.value.got == "nvdisasm fatal : the cubin is damaged" and caught.value.needs and caught.value.remedy
