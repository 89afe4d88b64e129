//! The rules of a plan.

use super::{Plan, RequestState, View};
use crate::error::{Error, Result};

impl Plan {
    /// Makes sure that a server can do this.
    ///
    /// # Errors
    /// A rule that the plan breaks, by name of the request.
    pub(super) fn check(&self, view: &View) -> Result<()> {
        let find = |list: &[RequestState], id: usize| list.iter().find(|request| request.id == id).copied();
        let mut free = view.free_tokens;
        for (index, &id) in self.preempt.iter().enumerate() {
            let request =
                find(&view.running, id).ok_or_else(|| broken(format!("preempts request {id}, which does not run")))?;
            if self.preempt[..index].contains(&id) {
                return Err(broken(format!("preempts request {id} twice")));
            }
            free += request.past_tokens;
        }
        let (mut running, mut computed, mut needed) = (view.running.len() - self.preempt.len(), 0, 0_usize);
        for (index, &(id, tokens)) in self.compute.iter().enumerate() {
            if self.compute[..index].iter().any(|(other, _)| *other == id) {
                return Err(broken(format!("computes request {id} twice")));
            }
            if self.preempt.contains(&id) {
                return Err(broken(format!("preempts request {id} and computes it")));
            }
            let (request, held) = match (find(&view.running, id), find(&view.waiting, id)) {
                (Some(request), _) => (request, 0),
                (_, Some(request)) => (request, request.past_tokens),
                _ => return Err(broken(format!("computes request {id}, which neither runs nor waits"))),
            };
            running += usize::from(find(&view.waiting, id).is_some());
            if !(1..=request.to_compute()).contains(&tokens) {
                return Err(broken(format!(
                    "computes {tokens} tokens of request {id}, which has {} to compute",
                    request.to_compute()
                )));
            }
            computed += tokens;
            needed += held + tokens;
        }
        let limits = [
            (computed, view.max_tokens_per_step, "computes", "tokens", "`max_tokens_per_step`"),
            (running, view.max_running, "runs", "requests at once", "`max_running`"),
            (needed, free, "needs room for", "tokens", "what is free"),
        ];
        for (found, limit, verb, what, name) in limits {
            if found > limit {
                return Err(broken(format!("{verb} {found} {what}, and {name} is {limit}")));
            }
        }
        Ok(())
    }
}

fn broken(rule: String) -> Error {
    Error::input(format!("the plan {rule}")).hint("see `quantlab::serve::Plan` for what a plan may say")
}
