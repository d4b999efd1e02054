//! Families about CPUs that containers have for themselves.

use super::Own;
use crate::exposition::Exposition;
use crate::number::Value;
use nodewarden_model::{CpuUser, ExclusiveCpu, ExclusiveCpusView};

/// Writes the families of exclusive CPUs. A CPU on which nothing is counted has only its owner.
pub(super) fn write(out: &mut Exposition<'_>, view: &ExclusiveCpusView) {
    let mut writer = out.family(Own::ExclusiveCpuOwner.desc());
    for own in &view.cpus {
        let labels =
            [("cpu", &*own.cpu.to_string()), ("container", &own.owner.container), ("uid", &own.owner.uid)];
        writer.sample(&[], &labels, Value::Int(1), &[]);
    }
    of_users(out, Own::ExclusiveCpuSeconds, view, |own, user| Some(Value::Nanos(own.used?.ns(user))));
    of_users(out, Own::ExclusiveCpuSwitches, view, |own, user| Some(Value::Int(own.used?.count(user))));
    of_users(out, Own::ExclusiveCpuLongest, view, |own, user| {
        own.used.filter(|_| CpuUser::FOREIGN.contains(&user))?;
        let turn = own.longest.iter().find(|turn| turn.user == user);
        Some(Value::Nanos(turn.map_or(0, |turn| turn.ns)))
    });
}

/// Writes a family with a sample for each CPU and user that has a value.
fn of_users(
    out: &mut Exposition<'_>,
    family: Own,
    view: &ExclusiveCpusView,
    value: fn(&ExclusiveCpu, CpuUser) -> Option<Value>,
) {
    let mut writer = out.family(family.desc());
    for own in &view.cpus {
        for user in CpuUser::ALL {
            if let Some(value) = value(own, user) {
                writer.sample(&[], &[("cpu", &*own.cpu.to_string()), ("by", user.name())], value, &[]);
            }
        }
    }
}
