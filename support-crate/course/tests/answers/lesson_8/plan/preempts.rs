// Throws out who runs.
// wrong: nobody needs to be preempted
fn plan(view: &View) -> Plan {
    let preempt = view.running.iter().map(|r| r.id).collect();
    Plan { preempt, compute: view.waiting.iter().take(1).map(|r| (r.id, 1)).collect() }
}
