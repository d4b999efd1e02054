//! Rules for restarting one container that differ from its pod's policy (KEP-5307,
//! `validateRestartPolicyRules`). The action that restarts all containers of the pod
//! (`RestartAllContainersOnContainerExits`) is refused.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule};

use super::report::Report;

const MOST_RULES: usize = 20;
const MOST_VALUES: usize = 255;

pub(super) fn problems(container: &Container, place: &str, report: &mut Report) {
    let field = format!("{place}.restartPolicyRules");
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    if rules.is_empty() {
        return;
    }
    if container.restart_policy.is_none() {
        report.add(format!("{place}.restartPolicy"), "", "is required where there are restartPolicyRules");
    }
    if rules.len() > MOST_RULES {
        report.add(&field, rules.len().to_string(), format!("must be at most {MOST_RULES} rules"));
    }
    for (index, one) in rules.iter().enumerate() {
        rule(one, &format!("{field}[{index}]"), report);
    }
}

fn rule(rule: &ContainerRestartRule, place: &str, report: &mut Report) {
    report.word(format!("{place}.action"), Some(&rule.action), &["Restart"]);
    let Some(codes) = &rule.exit_codes else {
        report.required(format!("{place}.exitCodes"));
        return;
    };
    report.word(format!("{place}.exitCodes.operator"), Some(&codes.operator), &["In", "NotIn"]);
    let values = codes.values.as_deref().unwrap_or_default();
    if values.is_empty() || values.len() > MOST_VALUES {
        let expected = format!("must be 1 to {MOST_VALUES} exit codes");
        report.add(format!("{place}.exitCodes.values"), values.len().to_string(), expected);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(policy: Value, rules: Value, expected: &[&str]) {
        let container = json!({"name": "c", "restartPolicy": policy, "restartPolicyRules": rules});
        let mut report = Report::of(crate::PodKind::Static);
        problems(&serde_json::from_value(container).unwrap(), "c", &mut report);
        let messages: Vec<_> = report.into_problems().iter().map(ToString::to_string).collect();
        assert_eq!(messages, expected);
    }

    #[test]
    fn restart_rules_are_validated() {
        let rule = |action: &str, operator: &str, values: &[i32]| json!({"action": action, "exitCodes": {"operator": operator, "values": values}});
        let good = || rule("Restart", "In", &[1]);
        check(Value::Null, Value::Null, &[]);
        check(json!("Never"), json!([good(), rule("Restart", "NotIn", &[0, 3])]), &[]);
        check(
            Value::Null,
            json!([good()]),
            &["c.restartPolicy: is required where there are restartPolicyRules"],
        );
        check(
            json!("Never"),
            json!([rule("RestartAllContainers", "In", &[1])]),
            &["c.restartPolicyRules[0].action: \"RestartAllContainers\" must be one of Restart"],
        );
        check(
            json!("Never"),
            json!([rule("Restart", "Above", &[]), {"action": "Restart"}]),
            &[
                "c.restartPolicyRules[0].exitCodes.operator: \"Above\" must be one of In, NotIn",
                "c.restartPolicyRules[0].exitCodes.values: \"0\" must be 1 to 255 exit codes",
                "c.restartPolicyRules[1].exitCodes: is required",
            ],
        );
        check(
            json!("Never"),
            Value::from(vec![good(); 21]),
            &["c.restartPolicyRules: \"21\" must be at most 20 rules"],
        );
    }
}
