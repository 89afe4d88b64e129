// Nobody has written it yet.
// not yet
fn run_for_varied_lengths(clock: &dyn Clock, loaded: &Loaded, config: &SweepConfig) -> Result<Vec<LengthRun>> {
    todo!()
}
