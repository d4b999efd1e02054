//! Converts exclusive CPUs into messages of `nodewarden.v1`.

use nodewarden_proto::nodewarden::v1 as proto;

use nodewarden_model::{CpuTurn, CpuUse, CpuUser, ExclusiveCpu, ExclusiveCpusView};

/// The response with all exclusive CPUs.
pub fn list(view: ExclusiveCpusView) -> proto::ListExclusiveCpusResponse {
    proto::ListExclusiveCpusResponse { cpus: view.cpus.into_iter().map(cpu).collect(), problem: view.problem }
}

fn cpu(own: ExclusiveCpu) -> proto::ExclusiveCpu {
    proto::ExclusiveCpu {
        cpu: own.cpu,
        uid: own.owner.uid,
        container: own.owner.container,
        cgroup: own.owner.cgroup,
        used: own.used.map(used).unwrap_or_default(),
        longest: own.longest.into_iter().map(turn).collect(),
    }
}

fn used(used: CpuUse) -> Vec<proto::CpuUse> {
    let of = |by: CpuUser| proto::CpuUse { by: by.name().to_owned(), ns: used.ns(by), count: used.count(by) };
    CpuUser::ALL.map(of).into()
}

fn turn(turn: CpuTurn) -> proto::CpuTurn {
    proto::CpuTurn { by: turn.user.name().to_owned(), ns: turn.ns, pid: turn.pid, name: turn.name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_is_listed_once_it_is_counted() {
        let mut view = ExclusiveCpusView::example();
        view.cpus.push(ExclusiveCpu { cpu: 3, used: None, longest: Vec::new(), ..view.cpus[0].clone() });
        let listed = list(view.clone());
        let [first, second] = &listed.cpus[..] else { panic!("{listed:?}") };
        let by: Vec<&str> = first.used.iter().map(|used| used.by.as_str()).collect();
        assert_eq!(by, ["owner", "kernel_thread", "other", "idle", "interrupt", "softirq"]);
        let total: u64 = first.used.iter().map(|used| used.ns).sum();
        assert_eq!(Some(total), view.cpus[0].used.map(|used| used.total_ns()));
        assert_eq!((first.container.as_str(), first.longest[0].by.as_str()), ("web", "other"));
        assert!(second.used.is_empty() && second.longest.is_empty());
    }
}
