//! `nodewarden tree`: the cgroup hierarchy with usage and limits of each level.

use std::time::Duration;

use clap::Args;
use nodewarden_proto::nodewarden::v1::{Cgroup, ListCgroupsRequest, ListCgroupsResponse};

use super::format::{bytes, printable};
use super::output::print;
use super::table::{Align, table};
use super::top::rates::{Row, rows};
use super::{CliError, SocketArg, client};

/// Time between the two readings from which CPU usage is computed.
const BETWEEN: Duration = Duration::from_millis(500);

/// Print the cgroup hierarchy with limits and usage
#[derive(Debug, Args)]
#[command(after_help = "\
CPU is the usage of the last half second in cores, with the limit behind the slash; SHARE is the CPU shares (v1)
or weight (v2); MEMORY is the working set. A dash means unknown or unlimited.

Examples:
  nodewarden tree                       everything
  nodewarden tree /kubepods --depth 2   pods by QoS class
  nodewarden tree --pods                only pods and the cgroups in them")]
pub struct TreeArgs {
    #[command(flatten)]
    socket: SocketArg,
    /// Only this cgroup and its descendants
    #[arg(default_value = "/")]
    path: String,
    /// Maximum number of levels
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// Only pods, containers and cgroups below them
    #[arg(long)]
    pods: bool,
}

pub async fn run(args: TreeArgs) -> Result<(), CliError> {
    let mut client = client::connect(&args.socket.socket).await?;
    let request = ListCgroupsRequest { path_prefix: args.path, pods_only: args.pods };
    let mut ask = async || -> Result<ListCgroupsResponse, CliError> {
        let answer = client.list_cgroups(request.clone()).await;
        Ok(answer.map_err(CliError::call("ListCgroups"))?.into_inner())
    };
    let before = ask().await?;
    tokio::time::sleep(BETWEEN).await;
    let now = ask().await?;
    Ok(print(&text(&before, &now, args.depth))?)
}

fn text(before: &ListCgroupsResponse, now: &ListCgroupsResponse, depth: Option<usize>) -> String {
    let head = ["CGROUP", "CPU", "SHARE", "MEMORY", "PIDS", "OOM"].map(str::to_owned).to_vec();
    let rows = rows(Some(before), now);
    let top = rows.iter().map(|r| level(&r.path)).min().unwrap_or(0);
    let mut lines = vec![head];
    // The rows are in the order of the cgroups that still exist.
    let alive = now.cgroups.iter().filter(|c| c.removed.is_none());
    for (row, cgroup) in rows.iter().zip(alive) {
        let below = level(&row.path).saturating_sub(top);
        if depth.is_none_or(|d| below <= d) {
            lines.push(line(row, cgroup, below));
        }
    }
    table(&lines, &[Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Right])
}

/// Number of levels below the root.
fn level(path: &str) -> usize {
    path.split('/').filter(|p| !p.is_empty()).count()
}

fn line(row: &Row, cgroup: &Cgroup, below: usize) -> Vec<String> {
    let last = row.path.rsplit('/').next().unwrap_or_default();
    // The first row shows the whole path.
    let own = if below == 0 || last.is_empty() { row.path.as_str() } else { last };
    let who = match row.kind.as_str() {
        "pod" | "container" | "sandbox" if row.name != row.path => format!("  ({})", row.name),
        _ => String::new(),
    };
    let cpu_limit = match (cgroup.cpu_quota_us, cgroup.cpu_period_us) {
        (Some(quota), Some(period)) if period > 0 => format!("{:.2}", quota as f64 / period as f64),
        _ => dash(),
    };
    let share = cgroup
        .cpu_weight
        .map(|w| format!("w{w}"))
        .or_else(|| cgroup.cpu_shares.map(|s| s.to_string()))
        .unwrap_or_else(dash);
    vec![
        printable(&format!("{}{own}{who}", "  ".repeat(below))),
        format!("{}/{cpu_limit}", row.cpu.map_or_else(dash, |c| format!("{c:.2}"))),
        share,
        format!("{}/{}", row.memory.map_or_else(dash, bytes), row.memory_limit.map_or_else(dash, bytes)),
        format!("{}/{}", number(row.threads), number(cgroup.threads_max)),
        number(row.oom_kills),
    ]
}

fn number(n: Option<u64>) -> String {
    n.map_or_else(dash, |n| n.to_string())
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_api::grpc::cgroup::list;
    use nodewarden_model::AgentState;
    use nodewarden_model::fixture::Node;

    #[test]
    fn levels_limits_and_usage_are_shown() {
        let node = Node::default();
        let [before, now] = [(); 2].map(|()| list(&node.snapshot(), "", false));
        assert_eq!(
            text(&before, &now, None),
            "\
CGROUP                                   CPU  SHARE        MEMORY   PIDS  OOM
/                                     1.50/-      -       150Mi/-  150/-    -
  kubepods                            0.64/-      -  64.0Mi/128Mi   64/-    -
    burstable                         0.64/-      -  64.0Mi/128Mi   64/-    -
      pod8c5e  (shop/cart-5d9c)       0.64/-      -  64.0Mi/128Mi   64/-    -
        c0ffee  (shop/cart-5d9c:web)  0.63/-      -  63.0Mi/128Mi   63/-    -
  system.slice                        0.20/-      -  20.0Mi/128Mi   20/-    -
    cron.service                      0.05/-      -      5.00Mi/-    5/-    -
"
        );
        let shallow = text(&before, &now, Some(1));
        assert_eq!(shallow.lines().count(), 4, "{shallow}");
        let [before, now] = [(); 2].map(|()| list(&node.snapshot(), "/kubepods/burstable", false));
        assert!(text(&before, &now, None).lines().nth(1).unwrap().starts_with("/kubepods/burstable  "));
    }
}
