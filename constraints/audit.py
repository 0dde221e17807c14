"""``make audit``: what an index of vulnerabilities says of the packages that are installed.

Exit code 0 where it knows none, or cannot be reached, which is then said; 1 for a finding; 2 where pip-audit fails.
"""

import json
import subprocess
import sys
from pathlib import Path

#: What pip-audit says where nobody answers.
UNREACHABLE = ("ConnectionError", "ConnectTimeout", "Max retries", "NameResolutionError", "Connection", "ServiceError")


def main(python: str) -> int:
    """Audit the environment of an interpreter and say in a line or a table what was found."""
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    own = str(Path(sys.executable).with_name("pip-audit"))
    command = [own, "--path", packages, "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        audited = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        if any(word in done.stderr for word in UNREACHABLE):
            print(f"audit: not done, no index of vulnerabilities answers ({last[:200]})")
            return 0
        print(f"audit: pip-audit failed: {last[:500]}", file=sys.stderr)
        return 2
    skipped = [one["name"] for one in audited if "skip_reason" in one]
    found = [(one["name"], one["version"], bug) for one in audited for bug in one.get("vulns", [])]
    for name, version, bug in found:
        fixed = ", ".join(bug["fix_versions"]) or "no version yet"
        print(f"{name} {version}: {bug['id']} (fixed in {fixed})")
    if len(skipped) == len(audited):
        print(f"audit: not done, the index knows nothing of vulnerabilities (0 of {len(audited)} packages)")
        return 0
    left = f"; not known to the index: {', '.join(skipped)}" if skipped else ""
    print(f"audit: {len(found)} known vulnerabilities in {len(audited) - len(skipped)} packages{left}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
