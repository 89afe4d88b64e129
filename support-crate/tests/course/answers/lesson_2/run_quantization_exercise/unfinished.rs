// Nobody has written it yet.
// not yet
fn run_quantization_exercise(
    clock: &dyn Clock,
    hub: &dyn ModelHub,
    config: &ExerciseConfig,
) -> Result<QuantizationReport> {
    todo!()
}
