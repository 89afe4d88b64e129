//! Lesson 2: quantized inference.

use crate::answers;

mod reference {
    pub use quantlab::prelude::*;

    include!("answers/lesson_2/reference.rs");
}

answers!("lesson_2", run_static_ptq, quantlab::course::check_run_static_ptq: dynamic, first_prompt_only, label_of_the_baseline, never_tried, other_model, own_method, own_prompts, same_tokenizer, solution, tries_by_forward, unquantized, vague_info, unfinished);

answers!("lesson_2", ablate_cache_and_padding, quantlab::course::check_ablate_cache_and_padding: always_cached, always_left, cache_only, fewer_without_cache, in_turn, no_warm_up, not_synchronized, one_prompt_at_a_time, own_loop, padding_counted, prompt_counted, solution, stops_at_eos, swapped, tokenizer_inside, unfinished);

answers!("lesson_2", measure_batched, quantlab::course::check_measure_batched: divided, last_batch_dropped, no_warm_up, one_clock, one_sequence_counted, rate_of_steps, share_of_a_batch, solution, tokenizer_inside, total_divided, whole_list, unfinished);

answers!("lesson_2", compare_ppl, quantlab::course::check_compare_ppl: all_at_once, first_model_only, first_text_only, in_bits, mean_of_means, mean_of_ppl, solution, swapped, two_to_the, unfinished);

answers!("lesson_2", build_results_table, quantlab::course::check_build_results_table: by_rows, milliseconds, no_caption, no_dtype, no_units, only_measured, solution, swapped_columns, zero_ppl, unfinished);

answers!("lesson_2", probe_edge_prompts, quantlab::course::check_probe_edge_prompts: by_hand, characters, more_tokens_for_long, no_long, no_note, no_warm_up, one_line, solution, too_long, without_cache, unfinished);

answers!("lesson_2", run_quantization_exercise, quantlab::course::check_run_quantization_exercise: batches_forgotten, empty_words, no_baseline_first, no_device, nothing_saved, one_model, other_knobs, other_method, same_runs, solution, unfinished);
