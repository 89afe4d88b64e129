// Not begun.
// not yet
fn simulated(
    jobs: &[Job],
    options: &ServerOptions,
    scheduler: &dyn Fn(&View) -> Plan,
    seconds: &dyn Fn(usize) -> f64,
) -> Vec<Progress> {
    todo!()
}
