//! Whether the arguments of the kernel's tracepoints are those that the programs read. The verifier refuses a
//! program that reads an argument which does not exist, but not one that takes a queue for a request: it
//! would count nonsense.

use nodewarden_model::{Argument, Hook, Program};

use super::btf::{Btf, Type};

/// The program among a listed one and its substitutes that reads what this kernel's tracepoint gives. A
/// tracepoint that the kernel does not have at all is left to the loader, which says so.
///
/// # Errors
/// The arguments here and those that the programs need, in words.
pub fn fitting(btf: &Btf<'_>, program: &Program) -> Result<Program, String> {
    let Hook::Tracepoint(tracepoint) = program.hook else { return Ok(*program) };
    let Some(here) = arguments(btf, tracepoint) else { return Ok(*program) };
    let fits = |form: &&Program| {
        form.reads.len() <= here.len() && form.reads.iter().zip(&here).all(|(read, id)| is(btf, *id, *read))
    };
    if let Some(form) = program.forms().find(fits) {
        return Ok(*form);
    }
    let names: Vec<&str> = here.iter().map(|id| btf.name(*id)).collect();
    let needed = |form: &Program| {
        let reads: Vec<String> = form.reads.iter().map(ToString::to_string).collect();
        format!("({})", reads.join(", "))
    };
    let needed: Vec<String> = program.forms().map(needed).collect();
    Err(format!(
        "{tracepoint} has {} argument{} ({}) here; this program needs {}",
        here.len(),
        if here.len() == 1 { "" } else { "s" },
        names.join(", "),
        needed.join(" or ")
    ))
}

/// Whether argument `n`, counted from 1, of a tracepoint is a pointer.
pub fn gives_a_pointer(btf: &Btf<'_>, tracepoint: &str, n: usize) -> bool {
    let argument = arguments(btf, tracepoint).and_then(|ids| ids.get(n.checked_sub(1)?).copied());
    argument.is_some_and(|id| matches!(btf.plain(id), Type::Pointer(_)))
}

/// The ids of the types of a tracepoint's arguments: the parameters of the function to which `btf_trace_NAME`
/// is a pointer, without the first one, the tracepoint's private data. `None` if the kernel does not have the
/// tracepoint.
fn arguments(btf: &Btf<'_>, tracepoint: &str) -> Option<Vec<u32>> {
    btf.named(&format!("btf_trace_{tracepoint}")).find_map(|found| {
        let Type::Alias(pointer) = found else { return None };
        let Type::Pointer(to) = btf.plain(pointer) else { return None };
        let Type::Prototype(parameters) = btf.plain(to) else { return None };
        Some(btf.parameters(parameters).skip(1).collect())
    })
}

/// Whether a type is what a program reads.
fn is(btf: &Btf<'_>, id: u32, read: Argument) -> bool {
    match read {
        Argument::Any => true,
        Argument::Pointer(structure) => {
            matches!(btf.plain(id), Type::Pointer(_)) && btf.name(id) == structure
        }
        Argument::Number => matches!(btf.plain(id), Type::Integer | Type::Enum(_)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nodewarden_model::Topic;

    use super::*;

    /// BTF with one tracepoint `block_rq_issue` that has these arguments, each a pointer to a structure of
    /// the name or, with a name in capitals, an integer.
    fn with(arguments: &[&str]) -> Vec<u8> {
        let mut strings = b"\0btf_trace_block_rq_issue\0x\0".to_vec();
        let x = strings.len() as u32 - 2;
        let mut types: Vec<u32> = vec![0, 2 << 24, 0]; // 1: void *
        let mut ids = vec![1];
        let mut last = 1;
        for argument in arguments {
            let name = strings.len() as u32;
            strings.extend(argument.bytes().chain([0]));
            if argument.chars().all(char::is_uppercase) {
                types.extend([name, 1 << 24, 4, 32]);
                last += 1;
            } else {
                types.extend([name, 4 << 24 | 1, 8, x, 1, 0]); // a structure with a member
                types.extend([0, 10 << 24, last + 1]); // const
                types.extend([0, 2 << 24, last + 2]); // a pointer
                last += 3;
            }
            ids.push(last);
        }
        types.extend([0, 13 << 24 | ids.len() as u32, 0]);
        ids.iter().for_each(|id| types.extend([0, *id]));
        types.extend([0, 2 << 24, last + 1, 1, 8 << 24, last + 2]);
        let length = types.len() as u32 * 4;
        let header = [0xeb9f | 1 << 16, 24, 0, length, length, strings.len() as u32];
        let words = header.into_iter().chain(types).flat_map(u32::to_ne_bytes);
        words.chain(strings).collect()
    }

    const ISSUE: Program =
        Program::at("issue", "block_rq_issue").reading(&[Argument::Pointer("request"), Argument::Number]);
    const EITHER: Program = Program::at("either", "block_rq_issue")
        .reading(&[Argument::Pointer("request")])
        .or(&Program::at("older", "block_rq_issue").reading(&[Argument::Any, Argument::Pointer("request")]));

    #[test]
    fn a_program_fits_a_tracepoint_with_the_arguments_that_it_reads() {
        let fits = |arguments: &[&str]| fitting(&Btf::parse(&with(arguments)).unwrap(), &ISSUE).is_ok();
        assert!(fits(&["request", "INT"]));
        assert!(fits(&["request", "INT", "more"]));
        assert!(!fits(&["request"]), "too few");
        assert!(!fits(&["request_queue", "INT"]), "another structure");
        assert!(!fits(&["request", "bio"]), "a pointer is no number");
        assert!(!fits(&["REQUEST", "INT"]), "a number is no pointer");
    }

    #[test]
    fn the_reason_names_what_is_there_and_what_is_needed() {
        let program = Program::at("issue", "block_rq_issue").reading(&[Argument::Pointer("request")]);
        let reason =
            fitting(&Btf::parse(&with(&["request_queue", "request"])).unwrap(), &program).unwrap_err();
        let expected =
            "block_rq_issue has 2 arguments (request_queue, request) here; this program needs (request)";
        assert_eq!(reason, expected);
        let reason = fitting(&Btf::parse(&with(&["INT"])).unwrap(), &EITHER).unwrap_err();
        assert_eq!(
            reason,
            "block_rq_issue has 1 argument (INT) here; this program needs (request) or (any, request)"
        );
    }

    #[test]
    fn the_first_form_that_fits_is_attached() {
        let name = |arguments: &[&str]| {
            fitting(&Btf::parse(&with(arguments)).unwrap(), &EITHER).map(|program| program.name)
        };
        assert_eq!(name(&["request"]), Ok("either"));
        assert_eq!(name(&["request_queue", "request"]), Ok("older"));
        assert!(name(&["request_queue", "INT"]).is_err());
    }

    #[test]
    fn a_tracepoint_that_does_not_exist_is_left_to_the_loader() {
        let program = Program { hook: Hook::Tracepoint("no_such_thing"), ..ISSUE };
        assert_eq!(fitting(&Btf::parse(&with(&[])).unwrap(), &program), Ok(program));
        let program = Program::new("network_egress", Hook::Egress);
        assert_eq!(fitting(&Btf::parse(&with(&[])).unwrap(), &program), Ok(program));
    }

    #[test]
    fn the_running_kernels_tracepoints_fit() {
        let vmlinux = Path::new("/sys/kernel/btf/vmlinux");
        if !vmlinux.exists() {
            nodewarden_testing::skip("this kernel shows no BTF");
            return;
        }
        let bytes = std::fs::read(vmlinux).unwrap();
        let btf = Btf::parse(&bytes).unwrap();
        for program in Topic::ALL.into_iter().flat_map(|topic| topic.spec().programs) {
            // Before Linux 6.9 mark_victim gives a number.
            if program.name != "mark_victim" {
                assert!(fitting(&btf, program).is_ok(), "{:?}", fitting(&btf, program));
            }
        }
        // Attached to this kernel's tracepoint, the program of Linux 5.11 would take a queue for a request.
        let swapped = Program::at("x", "sched_switch").reading(&[Argument::Pointer("task_struct")]);
        assert!(fitting(&btf, &swapped).unwrap_err().starts_with("sched_switch has "));
        assert!(!gives_a_pointer(&btf, "sched_switch", 1), "preempt is a bool");
        assert!(gives_a_pointer(&btf, "sched_switch", 2));
        assert!(!gives_a_pointer(&btf, "no_such_thing", 1));
    }
}
