//! The flags of a kubelet: each is taken as its key of the configuration, accepted without an effect, or
//! refused, so that what starts a kubelet starts the agent (cmd/kubelet/app/options). [`table`] says which is
//! what.

mod table;
#[cfg(test)]
mod tests;
mod value;

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use serde_yaml_ng::{Mapping, Value};

use crate::Problem;
use table::{FLAGS, Flag, Meaning};
use value::Form;

/// The flags of a kubelet that were given, with their values as typed, in the order of the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KubeletFlags(Vec<(&'static Flag, Vec<String>)>);

impl KubeletFlags {
    /// Writes the values over the keys of the files: flags take precedence, as in a kubelet.
    pub(crate) fn lay_over(&self, map: &mut Mapping, problems: &mut Vec<Problem>) {
        for (flag, texts) in &self.0 {
            let refuse = |expected: &str| Problem::of_flag(&dashed(flag), &texts.join(","), expected);
            match flag.meaning {
                Meaning::Key(path, form) => match form.read(texts) {
                    Ok(value) => put(map, path, value, form),
                    Err(expected) => problems.push(refuse(expected)),
                },
                Meaning::Only(only) if texts.iter().any(|text| text != only) => {
                    problems.push(refuse(&format!("{only}: nothing else is built in")));
                }
                Meaning::Refused(expected) => problems.push(refuse(expected)),
                Meaning::Only(_) | Meaning::NoEffect(_) => {}
            }
        }
    }

    /// Names the flag in problems of keys that it has set.
    pub(crate) fn name(&self, problems: &mut [Problem]) {
        for (flag, _) in &self.0 {
            let Meaning::Key(path, _) = flag.meaning else { continue };
            let field = path.join(".");
            for problem in problems.iter_mut() {
                let below = problem.field.strip_prefix(&field);
                if let Some(rest) = below.filter(|rest| rest.is_empty() || rest.starts_with(['.', '['])) {
                    problem.field = format!("{}{rest}", dashed(flag));
                    problem.file = None;
                    problem.is_flag = true;
                }
            }
        }
    }

    /// One text for each flag that has no effect here, with the reason.
    pub(crate) fn without_effect(&self) -> Vec<String> {
        let texts = self.0.iter().filter_map(|(flag, _)| match flag.meaning {
            Meaning::NoEffect(reason) => Some(format!("{} has no effect here: {reason}", dashed(flag))),
            _ => None,
        });
        texts.collect()
    }
}

/// The argument with `-` for `_` in the name of a flag, which pflag in a kubelet takes as the same
/// (WordSepNormalizeFunc).
pub fn with_dashes(argument: &str) -> String {
    let name = argument.split('=').next().filter(|name| name.starts_with("--"));
    let Some(name) = name else { return argument.to_owned() };
    format!("{}{}", name.replace('_', "-"), &argument[name.len()..])
}

fn dashed(flag: &Flag) -> String {
    format!("--{}", flag.name)
}

/// Sets the value at this path. Feature gates are merged by name, as in a kubelet; everything else is
/// replaced.
fn put(map: &mut Mapping, path: &[&str], value: Value, form: Form) {
    let Some((last, above)) = path.split_last() else { return };
    let mut target = map;
    for key in above {
        let entry = target.entry((*key).into()).or_insert_with(|| Mapping::new().into());
        if !entry.is_mapping() {
            *entry = Mapping::new().into();
        }
        let Value::Mapping(inner) = entry else { return };
        target = inner;
    }
    match (target.get_mut(*last), value) {
        (Some(Value::Mapping(known)), Value::Mapping(given)) if form == Form::Gates => known.extend(given),
        (_, value) => {
            target.insert((*last).into(), value);
        }
    }
}

impl clap::Args for KubeletFlags {
    fn augment_args(command: Command) -> Command {
        FLAGS.iter().fold(command, |command, flag| command.arg(arg(flag)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// As pflag takes it: `--flag value` or `--flag=value`; a boolean alone or `--flag=false`.
fn arg(flag: &'static Flag) -> Arg {
    let arg = Arg::new(flag.name).long(flag.name).action(ArgAction::Append).hide(true);
    let arg = if flag.name == table::VERBOSITY { arg.short('v') } else { arg };
    if flag.is_switch() {
        return arg.num_args(0..=1).require_equals(true).default_missing_value("true");
    }
    arg.num_args(1).allow_hyphen_values(true)
}

impl FromArgMatches for KubeletFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = FLAGS.iter().filter_map(|flag| {
            let texts: Vec<String> = matches.get_many::<String>(flag.name)?.cloned().collect();
            Some((flag, texts))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
