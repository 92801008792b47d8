# SPDX-License-Identifier: GPL-2.0-or-later
"""A host for a test: a libvirtd, backtraild, and guests that can be traced."""

import json
import os
import pwd
import re
import signal
import socket
import subprocess
import time

import backtrail
import guest
import hold
import libvirtd
import qemu
import trace
import transport

VIRSH = os.path.join(qemu.built('libvirt'), 'virsh')
BUILD = os.path.dirname(os.path.dirname(os.path.dirname(backtrail.binary())))
SERVICE = os.path.join(BUILD, 'host-agent', 'service', 'backtraild')
# Who runs the service, if root runs the test
USER = 'daemon'

DOMAIN = '''<domain type='qemu'>
  <name>{name}</name>
  <memory unit='MiB'>{memory}</memory>
  <vcpu>{vcpus}</vcpu>
  <os>
    <type arch='x86_64' machine='pc'>hvm</type>
    <kernel>{guest}/vmlinux</kernel>
    <initrd>{guest}/initrd</initrd>
    <cmdline>console=ttyS0 quiet panic=-1 no_timer_check {words}</cmdline>
  </os>
  <features><acpi/></features>
  <metadata><x:mine xmlns:x='urn:x'>this &amp; that</x:mine></metadata>
  <on_reboot>{reboot}</on_reboot>
  <on_crash>{crash}</on_crash>
  <devices>
    <emulator>{emulator}</emulator>
    <serial type='file'><source path='{serial}'/></serial>
    <memballoon model='none'/>
    {devices}
  </devices>
</domain>
'''


class Service:
    """A backtraild, which is nobody special; folder has all that is its own.

    settings is {group: {key: value}} of its configuration.
    """

    def __init__(self, folder, settings=None):
        self.folder = folder
        self.socket = os.path.join(folder, 'agent.sock')
        self.traces = os.path.join(folder, 'traces')
        self.config = os.path.join(folder, 'backtraild.conf')
        self.settings = {'service': {
            'socket': self.socket, 'socket-mode': '0666',
            'traces': self.traces, 'state': os.path.join(folder, 'state')},
            # A test's machine may be busy with other things.
            'guests': {'agent-timeout': '300000'}}
        for group, values in (settings or {}).items():
            self.settings.setdefault(group, {}).update(values)
        os.makedirs(folder)
        self.slow = False       # can its disk be held?
        self.user = None
        if os.geteuid() == 0:
            self.user = pwd.getpwnam(USER)
            os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        os.chmod(folder, 0o755)
        self.process = None

    def configure(self):
        with open(self.config, 'w', encoding='ascii') as f:
            for group, values in self.settings.items():
                f.write(f'[{group}]\n')
                f.writelines(f'{k}={v}\n' for k, v in values.items())

    def reconfigure(self, group, **values):
        """While it runs"""
        read = 'configuration read again'
        before = self.log().count(read)
        self.settings.setdefault(group, {}).update(values)
        self.configure()
        self.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 60
        while self.log().count(read) == before:
            if time.monotonic() > deadline:
                raise qemu.QemuError(f'it is not read: {self.log()}')
            time.sleep(0.05)

    def start(self):
        self.configure()
        command = [SERVICE, '--config', self.config]
        if self.user:
            command = ['setpriv', f'--reuid={self.user.pw_uid}',
                       f'--regid={self.user.pw_gid}', '--clear-groups',
                       *command]
        with open(self.path('log'), 'ab') as log:
            self.process = qemu.spawn(command, stdin=subprocess.DEVNULL,
                                      stdout=log, stderr=log,
                                      env=hold.env(self.path('hold'))
                                      if self.slow else None)
        deadline = time.monotonic() + 60
        while not self.listens():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise qemu.QemuError(f'backtraild did not start: {self.log()}')
            time.sleep(0.05)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def held(self):
        """A context in which the disk of one that is slow takes for ever"""
        return hold.held(self.path('hold'))

    def listens(self):
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(self.socket)
                return True
            except OSError:
                return False

    def log(self):
        with open(self.path('log'), encoding='utf-8', errors='replace') as f:
            return f.read()

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self):
        """In order; its exit status"""
        self.process.terminate()
        status = self.process.wait(60)
        self.process = None
        return status


class Host:
    """All that is needed to trace guests of libvirt

    uri is where its libvirtd is found; session is for qemu:///session.
    settings are those of Service, ssh and user those of Libvirtd.
    """

    def __init__(self, session=False, ssh=False, settings=None, user=None):
        why = libvirtd.Libvirtd.lacks(session)
        if why:
            qemu.skip(why)
        self.daemon = libvirtd.Libvirtd(session, {
            'qemu': os.path.dirname(qemu.patched()),
            'guest': os.path.dirname(guest.vmlinux())}, ssh, user)
        self.service = Service(self.daemon.path('service'), settings)
        self.emulator = os.path.join(self.daemon.readable['qemu'],
                                     os.path.basename(qemu.patched()))
        # By another name, it is the emulator of before.
        self.other = os.path.join(self.daemon.make('other'),
                                  'qemu-system-x86_64')
        os.symlink(self.emulator, self.other)

    def start(self):
        self.daemon.start()
        self.service.start()

    def close(self):
        self.daemon.close()
        self.service.kill()

    @property
    def uri(self):
        return self.daemon.uri

    def run(self, *args, uri=None, **kwargs):
        """virsh: its subprocess.CompletedProcess"""
        return self.daemon.run(VIRSH, '-c', uri or self.uri, *args, **kwargs)

    def virsh(self, *args, **kwargs):
        """What virsh prints; of a failure, both what it prints and says"""
        result = self.run(*args, **kwargs)
        return result.stdout + (result.stderr if result.returncode else '')

    def spawn(self, *args, **kwargs):
        """A virsh that runs beside the test"""
        return qemu.spawn([VIRSH, '-c', self.uri, *args], text=True,
                          stdin=subprocess.DEVNULL, env=self.daemon.env(),
                          stdout=subprocess.PIPE, **kwargs)

    def spawn_into(self, file, *args):
        """The same, and it writes all that it says into a file"""
        return qemu.spawn([VIRSH, '-c', self.uri, *args],
                          stdin=subprocess.DEVNULL, env=self.daemon.env(),
                          stdout=file, stderr=file)

    def backtrail(self, command, *args, **kwargs):
        return self.daemon.run(backtrail.binary(), command, '--connect',
                               self.uri, *args, **kwargs)

    def define(self, *names, words='bt.workload=sorter,caller', memory=256,
               vcpus=2, reboot='destroy', crash='preserve', devices='',
               enable=True):
        """One domain, which is guest, or many that are alike"""
        paths = [self.daemon.path(f'{name}.xml') for name in names or ['guest']]
        for name, path in zip(names or ['guest'], paths):
            self.daemon.write(path, DOMAIN.format(
                name=name, memory=memory, vcpus=vcpus,
                words=' '.join((*guest.QUICK, words)),
                guest=self.daemon.readable['guest'], emulator=self.other,
                serial=self.serial_path(name), reboot=reboot, crash=crash,
                devices=devices))
            if enable and names:
                self.daemon.write(path, self.daemon.run(
                    backtrail.binary(), 'enable', '--emulator', self.emulator,
                    '--agent', self.service.socket, '--xml', path).stdout)
        self.virsh('; '.join(f'define {path}' for path in paths))
        if enable and not names:
            self.enable()

    def enable(self, name='guest', *args):
        return self.backtrail('enable', '--emulator', self.emulator,
                              '--agent', self.service.socket, '--tcg', *args,
                              name).stdout

    def serial_path(self, name):
        return os.path.join(self.daemon.make('home'), f'{name}.serial')

    def serial(self, name='guest'):
        try:
            with open(self.serial_path(name), encoding='utf-8',
                      errors='replace') as f:
                return f.read()
        except FileNotFoundError:
            return ''

    def boot(self, *names):
        """Start guests, and wait until they do what they are there for."""
        for name in names:
            self.virsh('start', name)
        deadline = time.monotonic() + 120
        for name in names:
            while not re.search('^BT: pid=', self.serial(name), re.M):
                if time.monotonic() > deadline:
                    raise qemu.QemuError(f'{name} does not boot: '
                                         f'{self.serial(name)}')
                time.sleep(0.05)

    def status(self, name='guest', *args):
        return json.loads(self.virsh('trace-status', name, '--json', *args))

    def session(self, session, name='guest'):
        """The last one of this name"""
        return self.status(name, '--session', session)['sessions'][-1]

    def trace(self, file, name='guest'):
        """Path of a trace"""
        return os.path.join(self.service.traces, name, file)


class HostTest(trace.TraceChecks):
    """For a unittest.TestCase; host is shared by its tests."""

    SESSION = False

    @classmethod
    def setUpClass(cls):
        cls.host = Host(cls.SESSION)
        cls.addClassCleanup(cls.host.close)
        cls.host.start()

    def tearDown(self):
        process = self.host.service.process
        if process and process.poll() is not None:
            log = self.host.service.log()
            # For what comes next
            self.host.service.start()
            self.fail(f'backtraild has ended, status {process.returncode}: '
                      f'{log}')

    def active(self):
        """Sessions of the domain guest that have not ended"""
        return [s['session'] for s in self.host.status()['sessions']
                if 'ended' not in s]

    def stop_all(self):
        for name in self.active():
            self.host.virsh('trace-stop', 'guest', '--session', name)

    def wait(self, condition, timeout=120):
        deadline = time.monotonic() + timeout
        while True:
            value = condition()
            if value:
                return value
            self.assertLess(time.monotonic(), deadline,
                            self.host.service.log())
            time.sleep(0.1)

    def wait_records(self, session, name='guest', more_than=100000):
        return self.wait(lambda: self.host.session(
            session, name)['records'] > more_than)

    def fails(self, why, *args, uri=None):
        result = self.host.run(*args, uri=uri, check=False)
        self.assertEqual(result.returncode, 1, result)
        self.assertIn(why, result.stderr)

    def assert_whole(self, file, name='guest', end=transport.END_STOPPED,
                     **sound):
        """A sound trace with records; its streams"""
        streams = self.assert_sound(self.host.trace(file, name), end, **sound)
        self.assertGreater(sum(s['records'] for s in streams.values()), 0)
        return streams
