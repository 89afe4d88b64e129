// Nobody has written it yet.
// not yet
fn run_with_and_without_cache(
    clock: &dyn Clock,
    loaded: &Loaded,
    config: &SweepConfig,
) -> Result<Vec<CacheRun>> {
    todo!()
}
