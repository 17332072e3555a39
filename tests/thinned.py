"""Of which tests `make test` runs only some parameters, evenly spread, or none: `make test-all` runs them all.

Each shows the same again at other parameters, or takes seconds to show what a cheaper test beside it shows in short; the times are of one core.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

KEPT = {
    "test_packed_batches.py::test_a_batch_is_right_in_every_way_and_order": 0,
    "test_accuracy.py::test_what_is_chosen_gives_the_error_and_nothing_faster_does": 2,
    "test_cli.py::test_tables_list_and_tell": 1,
    "test_bad_input.py::test_a_spec_that_cannot_be": 12,
    "test_model.py::test_what_an_explanation_prints_is_true": 4,
    "test_grouped_kernels.py::test_every_kind_of_kernel_for_batches_is_right_under_both_schedules": 0,
    "test_grouped_kernels.py::test_a_fault_is_noticed": 1,
    "test_strided_batches.py::test_a_batch_is_right_in_every_way": 1,
    "test_export_batch.py::test_the_launcher_compiles_and_links_with_the_example": 1,
    "test_export_batch_launcher.py::test_a_batch_is_one_launch_of_what_the_plan_says": 1,
    "test_manifest_batch.py::test_the_manifest_is_enough_to_launch_a_batch": 1,
    "test_export_batch.py::test_the_hosts_tiling_is_the_models": 4,
    "test_export_batch.py::test_header_and_example_are_clean": 3,
    "test_small_questions.py::test_what_is_counted_of_every_magnitude": 0,
    "test_small_questions.py::test_no_row_beyond_the_edge_is_read": 0,
    "test_small_products.py::test_sums_move_over_exactly_as_often_as_the_plan_says": 0,
    "test_small_products.py::test_bits_and_counts_are_the_schemes_on_the_unit": 0,
    "test_small_products.py::test_alpha_where_c_is_not_read": 2,
    "test_small_products.py::test_alpha_and_beta_of_elements_that_are_computed_again": 2,
    "test_judge.py::test_errors_of_even_data_are_within_a_factor_of_three_of_the_bound": 4,
    "test_amd_arithmetic.py::test_a_kernel_computes_what_the_scheme_does_on_the_unit": 2,
    "test_hopper.py::test_a_persistent_gemm_to_the_bit": 2,
    "test_amdgpu_machine.py::test_atomics_are_right_across_processes": 1,
    "test_amdgpu_machine.py::test_arrays_in_scratch_memory": 2,
    "test_amdgpu_matrix.py::test_each_k_is_met_by_its_own": 10,
    "test_amd_ways.py::test_a_missing_barrier_shows_between_the_schedules": 2,
    "test_tensor_memory.py::test_kernels_are_right_around_the_unit": 1,
    "test_split.py::test_every_word_is_the_references": 5,
    "test_split.py::test_one_pass_over_whole_rows_gives_the_same": 1,
    "test_fuzz.py::test_whatever_is_read_ends_in_an_exit_code": 2,
    "test_specialised.py::test_tiny_and_prime_sizes_have_a_plan": 4,
    "test_nvrtc.py::test_the_cubin_and_the_log_tell_the_same": 2,
    "test_nvrtc.py::test_two_processes_with_one_empty_cache": 1,
    "test_occupancy_amd.py::test_llvms_rule_over_a_grid": 3,
    "test_fragments_catalog.py::test_the_way_back_as_c": 12,
    "test_ways.py::test_b_need_not_be_split_again": 1,
    "test_papers_bench.py::test_plot_draws_both_pictures": 1,
    "test_mutants.py::test_a_copy_in_which_a_test_fails_or_is_skipped_is_no_ground": 0,
    "test_nvrtc.py::test_bundled_headers": 0,
    "test_ptx_parse.py::test_a_long_chain_of_blocks_is_no_trouble": 0,
    "test_fragments_catalog.py::test_a_map_is_proven_exactly_when_it_holds_every_element_so_often": 0,
    "test_ways.py::test_slices_give_the_same_bits_in_every_order": 0,
    "test_hip_road.py::test_a_product_through_the_driver_is_the_emulators_bit_for_bit": 0,
    "test_hip_road.py::test_the_emulators_answer_goes_into_the_same_file_if_asked": 0,
    "test_export.py::test_cmake_builds_installs_and_serves_a_project_in_plain_c": 0,
    "test_specs.py::test_special_values_left_alone_when_asked": 0,
    "test_specs.py::test_user_matrices_outside_the_range_are_told": 0,
    "test_specs.py::test_the_other_layouts": 1,
    "test_how_to_add.py::test_a_schedule_is_added_as_its_page_says": 0,
    "test_how_to_add.py::test_a_policy_is_added_as_its_page_says": 0,
    "test_random_specs.py::test_a_random_spec_of_the_other_design_does_so_too": 0,
    "test_warpgroups.py::test_mixed_and_prepass_keep_the_same_words": 1,
    "test_sabotage.py::test_the_right_fp32_kernel_passes_the_same_questions": 0,
    "test_sabotage.py::test_the_right_kernel_passes_the_same_questions": 1,
    "test_own_expressions.py::test_a_plan_that_breaks_it_is_refused": 0,
    "test_how_to_add.py::test_a_scheme_is_added_as_its_page_says": 0,
    "test_how_to_add.py::test_a_fragment_is_added_as_its_page_says": 0,
    "test_hip_road.py::test_verify_on_a_gpu_reports_and_leaves_a_record": 0,
    "test_small_questions.py::test_both_orders_of_warps_and_copies_give_the_reference": 0,
    "test_small_questions.py::test_a_second_product_finds_its_workspace_as_the_first_did": 1,
    "test_small_questions.py::test_elements_are_counted_once_however_many_blocks_share_them": 2,
    "test_export.py::test_the_launcher_compiles_and_links_with_a_foreign_program": 0,
    "test_export.py::test_the_c_sizes_are_the_plans": 4,
    "test_specs.py::test_any_size_even_none": 3,
    "test_specs.py::test_users_special_values_are_judged_by_kind": 0,
    "test_amdgpu_machine.py::test_loops_of_different_length_in_each_lane_and_workgroup": 5,
    "test_amdgpu_machine.py::test_barriers_in_a_loop_whose_length_differs_by_workgroup": 2,
    "test_machine.py::test_a_split_gemm_equals_the_composition_of_dots": 1,
    "test_register_model_amd.py::test_kernels_without_a_matrix_unit": 1,
    "test_register_model_amd.py::test_no_choice_of_plain_fp32_spills": 1,
    "test_register_model_amd.py::test_plain_fp32_that_spills_is_foreseen": 1,
    "test_builds.py::test_what_the_compiler_was_seen_to_refuse_has_a_next_choice": 1,
    "test_register_model.py::test_no_choice_spills": 2,
    "test_register_model.py::test_the_compiler_still_does_what_the_table_says": 1,
    "test_export_batch_launcher.py::test_the_example_for_amd_is_clean": 1,
    "test_tcgen05.py::test_every_scheme": 1,
    "test_tcgen05.py::test_tiles_and_promotion": 1,
    "test_hip_export.py::test_the_code_objects_are_of_the_architectures_that_the_manifest_tells": 2,
    "test_hip_export.py::test_the_source_compiles_for_the_device_beside_rocms_names": 2,
    "test_hip_header.py::test_the_primitives_compile": 12,
    "test_hip_header.py::test_in_the_company_of_hips_own_headers": 4,
    "test_export_launcher.py::test_a_product_is_the_plans_launches": 8,
    "test_warpgroup_header.py::test_the_primitives_compile": 8,
    "test_matrix_instructions.py::test_the_targets_that_have_it_and_no_others": 4,
    "test_how_to_add.py::test_an_output_type_is_added_as_its_page_says": 0,
    "test_bounds.py::test_every_bound_is_what_all_values_give": 2,
    "test_catalog.py::test_fragment_expressions_compute_the_map": 12,
    "test_judge.py::test_a_right_kernel_passes_every_question": 1,
    "test_amd_errors.py::test_a_right_kernel_meets_the_bound_on_any_data_and_one_without_a_product_does_not": 3,
    "test_plan_and_model.py::test_the_plan_the_model_and_the_text_agree": 2,
    "test_model.py::test_every_reading_gives_the_numbers_of_plans": 1,
    "test_demo.py::test_exit_code": 2,
    "test_amd_errors.py::test_small_terms_of_one_sign_that_a_long_sum_swallows": 1,
    "test_amd_units.py::test_dot_is_the_rule_over_fractions": 6,
    "test_grouped_kernels.py::test_few_products_are_right_under_both_schedules": 3,
    "test_small_products.py::test_alpha_and_beta": 2,
    "test_small_products.py::test_a_last_group_of_fewer_rows": 1,
    "test_amd_arithmetic.py::test_a_dropped_product_is_found_however_much_the_unit_flushes": 1,
    "test_amd_fragments.py::test_a_product_of_what_foreach_ij_fills": 3,
    "test_amd_fragments.py::test_a_product_of_what_formulas_fill": 3,
    "test_amd_fragments.py::test_single_elements": 4,
    "test_amd_fragments.py::test_a_sum_is_that_of_multiply_adds_in_order": 4,
    "test_amd_fragments.py::test_two_rules_need_no_memory": 4,
    "test_amd_fragments.py::test_a_deep_and_b_not_multiplies_wrongly": 3,
    "test_amd_fragments.py::test_words_are_rounded_to_nearest": 8,
    "test_hip_road.py::test_the_real_hip_python_takes_the_road_too": 0,
    "test_specs.py::test_every_depth_of_stage_on_the_cuda_cores": 1,
    "test_specs.py::test_every_depth_of_stage_and_place_of_promotion": 2,
    "test_manifest.py::test_the_manifest_is_enough_to_launch": 1,
    "test_machine.py::test_planted_faults_do_not_pass": 6,
    "test_fragment_header.py::test_a_product_of_random_matrices": 3,
    "test_order.py::test_a_message_between_blocks": 8,
    "test_hopper.py::test_boxes_of_a_tensor": 12,
    "test_wmma.py::test_fragments_lie_where_the_machine_code_puts_them": 16,
    "test_wmma.py::test_a_gemm_with_padded_rows_equals_the_composition_of_dots": 4,
    "test_amdgpu_matrix.py::test_products_of_integers_are_exact": 12,
    "test_small_questions.py::test_rows_of_subnormal_numbers": 1,
}
"""How many of a function's parameters `make test` keeps."""


@cache
def _faults() -> list[set[str]]:
    """For each fault of tests/mutants the tests that notice it, by file and name."""
    files = sorted((Path(__file__).parent / "mutants").glob("*.toml"))
    found = [one for file in files for one in tomllib.loads(file.read_text()).get("mutant", [])]
    return [{name.rpartition("/")[2] for name in one.get("tests", [])} for one in found]


def left_out(names: list[str], kept: int) -> list[int]:
    """The places of those that it does not keep: neither one of the evenly spread nor the first that notices a fault.

    Args:
        names: of one function's tests, as `file.py::name[parameters]`.
    """
    chosen = {at * len(names) // kept for at in range(kept)} if kept else set()
    for tests in _faults():
        mine = [at for at, name in enumerate(names) if name in tests or name.partition("[")[0] in tests]
        if mine and not chosen & set(mine):
            chosen.add(mine[0])
    return [at for at in range(len(names)) if at not in chosen]
