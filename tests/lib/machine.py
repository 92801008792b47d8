# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine for a test: a Debian that has only its base system, with systemd as
PID 1, which a container runs.  What the test does in there is gone afterwards.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import guest
import qemu

# Beside the base system, for what is built with the library
INCLUDE = ('ca-certificates', 'gcc', 'libc6-dev', 'pkg-config')
ENV = {'HOME': '/root', 'LANG': 'C.UTF-8', 'DEBIAN_FRONTEND': 'noninteractive',
       'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'}
CGROUPS = '/sys/fs/cgroup'
DOMAIN = '''<domain type='qemu'>
  <name>web</name>
  <memory unit='MiB'>256</memory>
  <vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='pc'>hvm</type>
    <kernel>/guest/vmlinux</kernel>
    <initrd>/guest/initrd</initrd>
    <cmdline>console=ttyS0 quiet panic=-1 no_timer_check bt.workload=idle</cmdline>
  </os>
  <features><acpi/></features>
  <devices>
    <emulator>{emulator}</emulator>
    <serial type='file'><source path='/var/log/libvirt/qemu/web.txt'/></serial>
    <memballoon model='none'/>
  </devices>
</domain>
'''


class MachineError(Exception):
    """A command did not do what a test needs; the message says what."""


def lacks():
    """Why there can be no machine here, or None"""
    if not shutil.which('systemd-nspawn'):
        return 'there is no systemd-nspawn; scripts/deps packages installs it'
    if lacks_base():
        return lacks_base()
    with open('/proc/self/mountinfo', encoding='ascii') as f:
        if not any(line.split()[4] == '/' for line in f):
            return 'no container can be run in a chroot'
    return None


def release():
    """This Debian's codename"""
    with open('/etc/os-release', encoding='utf-8') as f:
        return dict(line.rstrip('\n').split('=', 1) for line in f
                    if '=' in line)['VERSION_CODENAME']


@contextlib.contextmanager
def locked(name):
    """A context of which there is one at a time, of all that use the cache"""
    locks = os.path.join(qemu.cache(), 'lock')
    os.makedirs(locks, exist_ok=True)
    with open(os.path.join(locks, name), 'w', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def mirror(name):
    """The first site from which apt has packages of a release"""
    sites = subprocess.run(
        ['apt-get', 'indextargets', '--format', '$(SITE)',
         f'Codename: {name}', 'Created-By: Packages'],
        check=True, capture_output=True, text=True).stdout.split()
    if not sites:
        qemu.skip(f'apt knows no mirror of {name}')
    return sorted(set(sites))[0]


def lacks_base():
    """Why there can be no base system here, or None"""
    if not shutil.which('mmdebstrap'):
        return 'there is no mmdebstrap; scripts/deps packages installs it'
    return None if os.geteuid() == 0 else 'only root can make a base system'


def cached(kind, name, make):
    """A folder of the cache; if it is new, make(path) makes it."""
    top = os.path.join(qemu.cache(), kind)
    path = os.path.join(top, name)
    os.makedirs(top, exist_ok=True)
    with locked(kind):
        if not os.path.isdir(path):
            new = f'{path}.new'
            shutil.rmtree(new, ignore_errors=True)
            make(new)
            os.rename(new, path)
    return path


def mmdebstrap(name, path, include, *options):
    """Make the base system of a release, with more packages."""
    result = subprocess.run(
        # If it is killed, what it has mounted goes with it.
        ['unshare', '-m', 'mmdebstrap', '--variant=important',
         f'--include={",".join(include)}', *options, name, path,
         mirror(release())], check=False, capture_output=True, text=True)
    if result.returncode:
        shutil.rmtree(path, ignore_errors=True)
        qemu.skip(f'there can be no base system of {name} here: '
                  f'{" / ".join(result.stderr.strip().splitlines()[-8:])}')


def _base():
    """The folder with the base system; made if needed."""
    name = release()
    key = hashlib.sha256('\0'.join((mirror(name), *INCLUDE)).encode())
    return cached('machine', f'{name}-{key.hexdigest()[:16]}',
                  lambda path: mmdebstrap(name, path, INCLUDE))


class Machine:
    """One that has booted; folders has {path in it: folder to be seen there}.
    """

    def __init__(self, folders):
        base = _base()
        # What apt fetches is kept for the next machine.
        archives = os.path.join(qemu.cache(), 'machine', 'archives')
        os.makedirs(os.path.join(archives, 'partial'), exist_ok=True)
        self.log = tempfile.TemporaryFile()
        command = ['systemd-nspawn', '-D', base, '--volatile=overlay', '--boot',
                   '--register=no', '--console=pipe', '--hostname=machine',
                   f'--bind={archives}:/var/cache/apt/archives']
        command += [f'--bind-ro={source}:{path}'
                    for path, source in folders.items()]
        self.cgroups = []
        if not os.path.isdir('/run/systemd/system'):
            # Nobody here gives it cgroups of its own.
            command.append('--keep-unit')
            name = f'backtrail-machine-{os.getpid()}'
            self.cgroups = [
                os.path.join(CGROUPS, hierarchy, name)
                for hierarchy in ('systemd', 'unified')
                if os.path.isdir(os.path.join(CGROUPS, hierarchy))]
        for folder in self.cgroups:
            os.makedirs(folder, exist_ok=True)
        enter = ''.join(f'echo $$ >{folder}/cgroup.procs; '
                        for folder in self.cgroups)
        self.process = qemu.spawn(
            ['sh', '-ec', f'{enter}exec "$@"', 'sh', *command],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            # Others may have machines of the same base, which none changes.
            env={**os.environ, 'SYSTEMD_NSPAWN_LOCK': '0'})
        try:
            self.wait()
            self.run('apt-get update -q')
        except Exception:
            self.close()
            raise

    def init(self):
        """The process that is PID 1 of the machine, or None"""
        pid = self.process.pid
        with contextlib.suppress(OSError), open(
                f'/proc/{pid}/task/{pid}/children', encoding='ascii') as f:
            for child in f.read().split():
                with open(f'/proc/{child}/status', encoding='ascii') as status:
                    if any(line.startswith('NSpid:') and
                           line.split()[-1] == '1' for line in status):
                        return child
        return None

    def wait(self):
        deadline = time.monotonic() + 120
        state = ''
        while state not in ('running', 'degraded'):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.log.seek(0)
                said = self.log.read().decode(errors='replace').strip()
                raise MachineError(f'the machine does not boot: {said}')
            time.sleep(0.2)
            if self.init():
                state = self.run('systemctl is-system-running',
                                 check=False).stdout.strip()

    def run(self, script, check=True, timeout=600):
        """Run lines of shell; the finished process, its output as text"""
        result = subprocess.run(
            ['nsenter', '-t', self.init() or '0', '-m', '-u', '-i', '-n', '-p',
             '-C', '-r', '-w', 'bash', '-e', '-o', 'pipefail', '-c', script],
            env=ENV, check=False, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=timeout)
        if check and result.returncode:
            raise MachineError(f'{script}: status {result.returncode}\n'
                               f'{result.stdout}{result.stderr}')
        return result

    def says(self, script, **kwargs):
        """What lines of shell print"""
        return self.run(script, **kwargs).stdout.strip()

    def apt(self, *args):
        """Have apt do something without a question."""
        with locked('machine-archives'):
            self.run('apt-get -q -y --no-install-recommends '
                     f'{" ".join(args)}')

    def install_libvirt(self):
        """As README says"""
        self.apt('install', 'libvirt-daemon-system', 'libvirt-clients')
        # A container's are not writable.
        self.run('echo "cgroup_controllers = []" >>/etc/libvirt/qemu.conf; '
                 'systemctl restart libvirtd')

    def start_domain(self, libexec):
        """Have a domain of libvirt, web, that can be traced."""
        emulator = os.path.join(libexec, 'backtrail', 'qemu-system-x86_64')
        self.run("virsh define /dev/stdin <<'END'\n"
                 f'{DOMAIN.format(emulator=emulator)}END\n'
                 'backtrail enable --tcg web; virsh start web')

    def doctor(self):
        """What it says of web: {check: (state, message)}"""
        result = self.run('backtrail doctor --json web', check=False)
        checks = {c['check']: (c['state'], c['message'])
                  for c in json.loads(result.stdout)['checks']}
        bad = any(state == 'problem' for state, _ in checks.values())
        if result.returncode != (3 if bad else 0):
            raise MachineError(f'doctor: status {result.returncode}: {checks}')
        return checks

    def close(self):
        init = self.init()
        if init:
            os.kill(int(init), signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        self.process.kill()
        self.process.wait()
        self.log.close()
        for folder in self.cgroups:
            for path, _, _ in os.walk(folder, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(path)
