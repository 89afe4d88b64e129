// The settings take turns, and padding changes in the outer loop.
// right
fn ablate_cache_and_padding(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<AblationRun>> {
    let mut rows = Vec::new();
    let sides = [PaddingSide::Right, PaddingSide::Left];
    let settings: Vec<_> = sides.iter().flat_map(|&side| [(false, side), (true, side)]).collect();
    let mut runs = vec![Vec::new(); settings.len()];
    for round in 0..=repeats {
        for (&(use_cache, padding_side), runs) in settings.iter().zip(&mut runs) {
            let options = GenerateOptions { max_new_tokens, use_cache, padding_side, ..GenerateOptions::default() };
            let run = time_batch(clock, loaded, prompts, &options)?;
            if round > 0 {
                runs.push(run);
            }
        }
    }
    for ((use_cache, padding_side), runs) in settings.into_iter().zip(runs) {
        rows.push(AblationRun { use_cache, padding_side, runs: Runs::of(runs)? });
    }
    Ok(rows)
}
