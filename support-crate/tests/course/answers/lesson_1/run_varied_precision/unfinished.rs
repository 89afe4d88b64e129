// Nobody has written it yet.
// not yet
fn run_varied_precision(
    clock: &dyn Clock,
    hub: &dyn ModelHub,
    model_id: &str,
    device: Device,
    precisions: &[&str],
    prompt: &str,
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<PrecisionRun>> {
    todo!()
}
