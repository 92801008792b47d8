# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a libvirtd of the distribution's for a test, with all that is its own.

Neither the machine's libvirt nor its configuration is touched: as root, the
daemon has namespaces of its own, for its folders and for its processes, which
all end with it.
"""

import contextlib
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid

import qemu

DAEMON = '/usr/sbin/libvirtd'
# Defaults that need what a test's machine has not, or that take their time
CONFIG = '''security_driver = "none"
stdio_handler = "file"
namespaces = []
cgroup_controllers = []
'''
FOLDERS = {'etc': '/etc/libvirt', 'lib': '/var/lib/libvirt',
           'run': '/run/libvirt', 'cache': '/var/cache/libvirt',
           'log': '/var/log/libvirt'}
# To run a command in namespaces of its own, as root
UNSHARE = qemu.unshare_mounts('-p', '--fork', '--kill-child', '--mount-proc')
QEMU_USER = {'passwd': 'libvirt-qemu:x:64055:64055::/:/usr/sbin/nologin\n',
             'group': 'libvirt-qemu:x:64055:\n'}
# Who the session is of, if root runs the test
USER = 'nobody'


class Libvirtd:
    """A daemon for qemu:///system, or that of a user for qemu:///session.

    uri is where it is found.  folder has its files, and room for the test's;
    readable has the folders given where the daemon, and the user of a session,
    can read them.  With ssh, an SSH server runs beside it, see ssh_uri().

    user is the user of QEMU in qemu:///system, if not root; it can read them,
    too, and is in the groups that set_members() says, and in no others.
    """

    def __init__(self, session=False, readable=None, ssh=False, user=None):
        self.session = session
        self.ssh = ssh
        self.user = user
        self.root = os.geteuid() == 0
        self.folder = tempfile.mkdtemp(prefix='backtrail-virsh-')
        os.chmod(self.folder, 0o755)
        self.readable = {}
        self.mounts = []
        for name, source in (readable or {}).items():
            self.readable[name] = source
            if self.root and (session or user):
                self.readable[name] = self.make(name)
                self.mounts.append((source, self.readable[name]))
        if self.root and not session:
            # libvirt 9 starts only if the user of Debian's default is there.
            for name, line in QEMU_USER.items():
                with open(f'/etc/{name}', encoding='utf-8') as f:
                    self.write(self.path(f'etc-{name}'), f.read() + line)
                self.mounts.append((self.path(f'etc-{name}'), f'/etc/{name}'))
        if user:
            self.set_members({})
        self.process = None

    def set_members(self, members):
        """{group: users} of the daemon's groups, for those that it starts"""
        with open(self.path('etc-group'), encoding='utf-8') as f:
            groups = [line.split(':') for line in f.read().splitlines()]
        self.write(self.path('etc-group'), ''.join(
            ':'.join(group[:3] + [','.join(members.get(group[0], []))]) + '\n'
            for group in groups))

    @staticmethod
    def lacks(session):
        """Why it cannot run here, or None"""
        if not os.access(DAEMON, os.X_OK):
            return 'there is no libvirtd; scripts/deps virsh installs it'
        if os.geteuid() != 0:
            return None if session else 'only root can run qemu:///system'
        return None if UNSHARE else 'there can be no namespaces here'

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def make(self, *names):
        path = self.path(*names)
        os.makedirs(path, exist_ok=True)
        return path

    def write(self, path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text)

    def start(self):
        if self.session:
            self.socket = self.path('run', 'libvirt', 'libvirt-sock')
            self.write(self.path('config', 'libvirt', 'qemu.conf'), CONFIG)
            command = [DAEMON, '--pid-file', self.path('pid')]
            if self.root:
                user = pwd.getpwnam(USER)
                command = ['setpriv', f'--reuid={user.pw_uid}',
                           f'--regid={user.pw_gid}', '--clear-groups',
                           *command]
        else:
            self.socket = self.path('libvirt-sock')
            user = pwd.getpwnam(self.user or 'root')
            self.write(self.path('etc', 'qemu.conf'), CONFIG +
                       f'user = "+{user.pw_uid}"\n'
                       f'group = "+{user.pw_gid}"\n' +
                       # The files of the guest are others', too.
                       ('dynamic_ownership = 0\n' if self.user else ''))
            self.write(self.path('daemon.conf'),
                       f'unix_sock_dir = "{self.folder}"\n'
                       'unix_sock_rw_perms = "0777"\n'
                       f'host_uuid = "{uuid.uuid4()}"\n'
                       'auth_unix_rw = "none"\nauth_unix_ro = "none"\n')
            for name, place in FOLDERS.items():
                os.makedirs(place, exist_ok=True)
                self.mounts.append((self.make(name), place))
            command = [DAEMON, '-f', self.path('daemon.conf'), '--pid-file',
                       self.path('pid')]
        kind = 'session' if self.session else 'system'
        self.uri = f'qemu+unix:///{kind}?socket={self.socket}'
        if self.root:
            # The shell is the init that takes care of orphans.
            script = ''.join(f'mount --bind {shlex.quote(a)} '
                             f'{shlex.quote(b)}\n' for a, b in self.mounts)
            if self.ssh:
                script += self.ssh_script()
            # It is started again when it ends, for restart().
            script += f'while :; do {shlex.join(command)} || sleep 1; done'
            command = [*UNSHARE, 'bash', '-ec', script]
        for name in ('home', 'run', 'config', 'cache', 'data'):
            self.make(name)
        if self.session and self.root:
            user = pwd.getpwnam(USER)
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            for name in ('home', 'run', 'config', 'cache', 'data',
                         'config/libvirt'):
                os.chown(self.path(name), user.pw_uid, user.pw_gid)
        self.command = command
        self.spawn()

    def spawn(self):
        with open(self.path('daemon.log'), 'ab') as log:
            self.process = qemu.spawn(self.command, stdin=subprocess.DEVNULL,
                                      stdout=log, stderr=log, env=self.env())
        self.wait_socket()

    def wait_socket(self):
        deadline = time.monotonic() + 60
        while True:
            with socket.socket(socket.AF_UNIX) as s:
                if s.connect_ex(self.socket) == 0:
                    return
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise qemu.QemuError(f'libvirtd did not start: {self.log()}')
            time.sleep(0.05)

    def restart(self):
        """End it, and start it again; its guests continue."""
        if not self.root:
            self.process.terminate()
            self.process.wait(60)
            self.spawn()
            return
        old = self.pid()
        os.kill(old, signal.SIGTERM)
        deadline = time.monotonic() + 60
        while self.pid() in (old, None):
            if time.monotonic() > deadline:
                raise qemu.QemuError(f'libvirtd does not restart: '
                                     f'{self.log()}')
            time.sleep(0.05)
        self.wait_socket()

    @contextlib.contextmanager
    def away(self):
        """A context without it, of root's; its guests continue."""
        pid = self.pid()
        with open(f'/proc/{pid}/stat', encoding='utf-8') as f:
            init = int(f.read().rpartition(')')[2].split()[1])
        os.kill(init, signal.SIGSTOP)
        try:
            os.kill(pid, signal.SIGTERM)
            yield
        finally:
            os.kill(init, signal.SIGCONT)
        self.wait_socket()

    def pid(self):
        """Of libvirtd in its namespace, as it is called here"""
        todo = [self.process.pid]
        while todo:
            pid = todo.pop()
            try:
                with open(f'/proc/{pid}/comm', encoding='utf-8') as f:
                    if f.read().strip() == 'libvirtd':
                        return pid
                with open(f'/proc/{pid}/task/{pid}/children',
                          encoding='ascii') as f:
                    todo += map(int, f.read().split())
            except FileNotFoundError:
                continue
        return None

    def ssh_script(self):
        """What runs an SSH server beside it, whose root is at home here"""
        home = self.make('home')
        with open('/etc/passwd', encoding='utf-8') as f:
            users = [line.split(':') for line in f.read().splitlines()]
        for user in users:
            if user[0] == 'root':
                user[5:] = [home, '/bin/sh']
        self.write(self.path('passwd'),
                   '\n'.join(map(':'.join, users)) + '\n')
        subprocess.run(['dropbearkey', '-t', 'ed25519', '-f',
                        self.path('host-key')], check=True,
                       capture_output=True)
        subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f',
                        self.path('key')], check=True, capture_output=True)
        self.make('home', '.ssh')
        shutil.copy(self.path('key.pub'),
                    os.path.join(home, '.ssh', 'authorized_keys'))
        os.chmod(home, 0o700)
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            self.ssh_port = s.getsockname()[1]
        # The client ignores HOME, and would use root's real one.
        self.write(self.path('ssh'), '#!/bin/sh\nexec ssh -F none '
                   f'-o UserKnownHostsFile={self.path("known-hosts")} "$@"\n')
        os.chmod(self.path('ssh'), 0o755)
        # virt-ssh-helper knows one place.
        os.symlink(self.socket, self.make('run') + '/libvirt-sock')
        run = (f'mount --bind {shlex.quote(self.path("passwd"))} /etc/passwd; '
               f'exec dropbear -F -E -s -r {shlex.quote(self.path("host-key"))}'
               f' -p 127.0.0.1:{self.ssh_port} -P /dev/null')
        return f'unshare -m --propagation unchanged bash -c {shlex.quote(run)} &\n'

    def ssh_uri(self):
        return (f'qemu+ssh://root@127.0.0.1:{self.ssh_port}/system?'
                f'command={self.path("ssh")}&keyfile={self.path("key")}&'
                'no_verify=1&no_tty=1')

    def env(self):
        """The environment of the daemon and its clients"""
        return dict(os.environ, HOME=self.path('home'), LC_ALL='C.UTF-8',
                    XDG_RUNTIME_DIR=self.path('run'),
                    XDG_CONFIG_HOME=self.path('config'),
                    XDG_CACHE_HOME=self.path('cache'),
                    XDG_DATA_HOME=self.path('data'))

    def log(self):
        with open(self.path('daemon.log'), encoding='utf-8',
                  errors='replace') as f:
            return f.read()

    def run(self, program, *args, check=True, timeout=60, **kwargs):
        """Run a client; return the subprocess.CompletedProcess."""
        result = subprocess.run([program, *args], env=self.env(), text=True,
                                stdin=subprocess.DEVNULL, timeout=timeout,
                                stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **kwargs)
        if check and result.returncode:
            raise qemu.QemuError(f'{program} {args}: status '
                                 f'{result.returncode}: {result.stderr}'
                                 f'{result.stdout}')
        return result

    def close(self):
        """End it, with all guests that it runs."""
        if self.process:
            if not self.root:
                # No namespace ends them.
                names = self.run('virsh', '-c', self.uri, 'list', '--name',
                                 check=False).stdout.split()
                for name in names:
                    self.run('virsh', '-c', self.uri, 'destroy', name,
                             check=False)
            self.process.kill()
            self.process.wait()
            self.process = None
        shutil.rmtree(self.folder, ignore_errors=True)
