// Not begun.
// not yet
fn plan(view: &View) -> Plan {
    todo!()
}
