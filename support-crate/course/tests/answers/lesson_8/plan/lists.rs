// Builds one list in order, then goes through it.
// right
fn plan(view: &View) -> Plan {
    let mut order: Vec<&RequestState> = view.running.iter().collect();
    order.sort_by_key(|r| !r.is_decoding());
    let promised: usize = order.iter().map(|r| r.final_tokens() - r.past_tokens).sum();
    let mut room = view.free_tokens as i64 - promised as i64;
    for r in &view.waiting {
        room -= r.final_tokens() as i64;
        if room < 0 || order.len() >= view.max_running { break; }
        order.push(r);
    }
    let mut left = view.max_tokens_per_step;
    let mut compute = vec![];
    for r in order {
        if left == 0 { break; }
        let n = std::cmp::min(left, r.to_compute());
        compute.push((r.id, n));
        left -= n;
    }
    Plan { compute, ..Default::default() }
}
