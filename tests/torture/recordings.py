# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of somebody else: their manifest, files, log or trace are hostile.

One is made, and in each round a copy of it is changed, with hashes that are
right again, mostly.  Each command that reads a recording ends by itself or when
it is asked to, with a status of its man page and clean output; it leaves no
process, and changes or makes nothing outside of the folder.
"""

import glob
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time

import campaign
import grow
import hostile
import mutate
import qemu
import traces

WHOLE = 20                      # seconds for a command before it is asked
END = 20                        # seconds that it may then take
BEATS = 3                       # of the guest
PLACES = ('1000', '0', '1.5s', '@5', '0:7', 'panic', 'last panic', '*0x1000',
          'last exit of sh', '99999999999', '@-1', '\x1b[31m')
HOSTILE = (
    '-drive', 'file=/etc/passwd,if=virtio,format=raw', '-drive',
    'file=recording/files/../../secret,format=raw', '-netdev', 'user,id=n',
    '-nic', 'user', '-chardev', 'file,id=c,path=secret', '-monitor', 'stdio',
    '-serial', 'file:secret', '-device', 'vfio-pci,host=0', '-kernel',
    '/etc/passwd', '-initrd', 'recording/files/..', '-qmp', 'stdio',
    '-fsdev', 'local,id=f,path=/', '-plugin', '/tmp/x.so', '-L', '/', '-m',
    '1T', '-smp', '255', '-append', 'x' * 70000, '-object',
    'memory-backend-file,id=m,size=1M,mem-path=secret', '-bios', 'secret',
    '-readconfig', 'secret', '-daemonize', '-pidfile', 'secret', '-D',
    'secret', '-runas', 'root', '-incoming', 'exec:touch secret', '-cpu',
    'max', '', '-', '--', '-display', 'curses', '-vnc', ':0', '-gdb',
    'tcp::1', '-S', '-name', '\x1b[31m', '-blockdev',
    '{"driver":"file","node-name":"x","filename":"/etc/passwd"}', '-icount',
    'shift=0,rr=record,rrfile=secret', '-accel', 'tcg,thread=multi')


class Part(campaign.Part):
    name = 'recordings'

    def begin(self):
        try:
            folder = traces.build()
            self.backtrail = os.path.join(folder, 'host-agent', 'cli',
                                          'backtrail')
            self.qemu = qemu.patched()
        except qemu.QemuError as e:
            raise campaign.Skip(str(e)) from None
        builds = (folder, os.path.join(qemu.TOP, 'build'))
        guests = [path for path in (os.path.join(
            build, 'tests', 'integration', 'rr-guest') for build in builds)
            if os.path.exists(path)]
        if not guests:
            raise campaign.Skip('tests/integration/rr-guest is not built')
        self.home = os.path.join(self.folder, 'home')
        self.given = os.path.join(self.folder, 'given')
        self.changed = os.path.join(self.folder, 'changed')
        self.out = os.path.join(self.folder, 'out')
        self.secret = os.path.join(self.folder, 'secret')
        os.mkdir(self.home)
        with open(self.secret, 'w', encoding='ascii') as f:
            f.write('secret')
        self.token = f'backtrail-torture-{os.getpid()}'
        self.environment = {
            **os.environ, **traces.SANITIZED, 'HOME': self.home,
            'XDG_STATE_HOME': os.path.join(self.home, 'state'),
            'TORTURE_TOKEN': self.token}
        firmware = [a for f in qemu.FIRMWARE for a in ('-L', f)]
        for words in (('record', '-q', '-o', self.given, '--', self.qemu,
                       '-nodefaults', '-display', 'none', *firmware, '-m',
                       '16', '-append', str(BEATS), '-kernel', guests[0]),
                      ('replay', '-q', self.given)):
            done = subprocess.run([self.backtrail, 'rr', *words],
                                  env=self.environment, capture_output=True,
                                  stdin=subprocess.DEVNULL, check=False,
                                  timeout=300)
            if done.returncode:
                raise campaign.Skip(f'rr {words[0]}: {done.stderr[-2000:]!r}')
        with open(os.path.join(self.given, 'trace.btrail'), 'rb') as f:
            self.seeds = [f.read()]

    def files(self):
        return [self.changed, self.out, self.out + '.err']

    def round(self):
        shutil.rmtree(self.changed, ignore_errors=True)
        shutil.copytree(self.given, self.changed)
        with open(self.path('recording.json'), encoding='utf-8') as f:
            self.manifest = json.load(f)
        for _ in range(self.random.choice((1, 1, 2, 4))):
            self.change()
        if self.manifest is not None:
            self.write('recording.json', json.dumps(self.manifest).encode())
        before = self.outside()
        self.commands()
        if self.outside() != before:
            raise campaign.Failure('outside of the folder: '
                                   f'{self.outside() ^ before}')

    def path(self, *names):
        return os.path.join(self.changed, *names)

    def outside(self):
        """Files of this part that no command has to do with"""
        found = set()
        for folder in (self.folder, self.given,
                       os.path.join(self.given, 'files')):
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                if os.path.isfile(path) and path not in (self.out,
                                                         self.out + '.err'):
                    with open(path, 'rb') as f:
                        found.add((path, hashlib.sha256(f.read()).digest()))
        return found

    def change(self):
        r = self.random
        what = r.choice((self.change_manifest, self.change_manifest,
                         self.change_arguments, self.change_arguments,
                         self.change_log, self.change_log, self.change_log,
                         self.change_trace, self.change_trace,
                         self.change_file, self.change_fingerprints,
                         self.change_checkpoints, self.change_kind,
                         self.break_manifest))
        self.say(f'{what.__name__}: {what()}')

    def change_manifest(self):
        if self.manifest is None:
            return None
        manifest = mutate.of_meta(self.random, self.manifest)
        if isinstance(manifest, dict):
            self.manifest = manifest
        return json.dumps(manifest)[:300]

    def change_arguments(self):
        arguments = self.manifest and self.manifest.get('arguments')
        if not isinstance(arguments, list):
            return None
        r = self.random
        i = r.randrange(len(arguments) + 1)
        kind = r.randrange(4)
        if kind == 0:
            del arguments[i:i + r.randrange(1, 4)]
        elif kind == 1:
            k = r.randrange(len(HOSTILE))
            arguments[i:i] = HOSTILE[k:k + r.choice((1, 2, 2, 4))]
        elif kind == 2:
            arguments[i:i + 1] = [r.choice(HOSTILE)]
        elif arguments:
            i = r.randrange(len(arguments))
            arguments[i] = str(arguments[i]) + r.choice(
                (',file=/etc/passwd', ',,', ',x', '\n', '=', ',readonly=on',
                 '/../../secret', ',fd=0', ',id=n'))
        return arguments[max(i - 1, 0):i + 4]

    def damage(self, path, most=8):
        """Other bytes in a file"""
        r = self.random
        if not os.path.isfile(path) or os.path.getsize(path) > 1 << 20:
            return None
        with open(path, 'rb') as f:
            data = bytearray(f.read())
        for _ in range(r.randrange(1, most)):
            kind = r.randrange(5)
            at = r.randrange(len(data) + 1)
            if kind == 0:
                del data[at:at + r.randrange(1, 40)]
            elif kind == 1:
                data[at:at] = r.randbytes(r.randrange(1, 40))
            elif kind == 2:
                data[at:at + 40] = data[at:at + 40] * r.randrange(2, 5)
            elif kind == 3 and data:
                data[at - 1] ^= 1 << r.randrange(8)
            else:
                size = r.choice((1, 2, 4, 8))
                old = int.from_bytes(data[at:at + size], 'little')
                data[at:at + size] = mutate.number(r, old, 8 * size) \
                    .to_bytes(size, 'little')
        if r.random() < 0.1:
            del data[r.randrange(len(data) + 1):]
        os.unlink(path)
        with open(path, 'wb') as f:
            f.write(data)
        return len(data)

    def rehash(self, name):
        """The manifest says of a file what it is now."""
        if self.manifest is None or self.random.random() < 0.1:
            return
        path = self.path(name)
        if not os.path.isfile(path) or os.path.getsize(path) > 1 << 30:
            return
        with open(path, 'rb') as f:
            data = f.read()
        says = [self.manifest.get('log')]
        if isinstance(self.manifest.get('files'), list):
            says += self.manifest['files']
        for one in says:
            if isinstance(one, dict) and one.get('name') == name:
                one['size'] = len(data)
                one['sha256'] = hashlib.sha256(data).hexdigest()

    def change_log(self):
        done = self.damage(self.path('replay.log'))
        if done is not None:
            self.rehash('replay.log')
        return done

    def change_file(self):
        name = self.random.choice(('0-rr-guest', 'firmware/bios-256k.bin'))
        done = self.damage(self.path('files', name))
        if done is not None:
            self.rehash(f'files/{name}')
        return name

    def change_fingerprints(self):
        return self.damage(self.path('fingerprints'))

    def change_checkpoints(self):
        return self.damage(self.path('checkpoints'))

    def change_trace(self):
        data, done = mutate.mutate(self.random, self.seeds, grow.GROWTHS)
        self.write('trace.btrail', data)
        return done

    def write(self, name, data):
        """If a file is there; through a link it would be another one."""
        path = self.path(name)
        if os.path.isfile(path) and not os.path.islink(path):
            os.unlink(path)
            with open(path, 'wb') as f:
                f.write(data)

    def change_kind(self):
        """A file is another kind of thing, or there is one more."""
        r = self.random
        names = [name for name in glob.glob(self.path('**'), recursive=True)
                 if os.path.isfile(name)]
        if not names:
            return None
        path = r.choice((*names, self.path('more'), self.path('files/more')))
        if os.path.lexists(path):
            os.unlink(path)
        kind = r.randrange(6)
        if kind == 0:
            os.symlink(r.choice((self.secret, '/etc/passwd', path, '.')), path)
        elif kind == 1:
            os.mkfifo(path)
        elif kind == 2:
            os.mkdir(path)
        elif kind == 3:
            with open(path, 'wb') as f:
                f.truncate(1 << 40)
        elif kind == 4:
            os.link(self.secret, path)
        return kind, path

    def break_manifest(self):
        text = self.random.choice((
            '', '{', '[' * 50000, '{"format":"backtrail recording"}', 'null',
            '{"version":1' + ',"a":1' * 100000 + '}', '\0' * 100))
        self.write('recording.json', text.encode())
        self.manifest = None
        return text[:20]

    def commands(self):
        r = self.random
        self.command('info', self.changed)
        if r.random() < 0.3:
            self.command('info', '--json', self.changed)
        kind = r.randrange(4)
        if kind == 0:
            self.command('verify', '-q', self.changed)
        elif kind == 1:
            self.command('goto', '-q', self.changed, r.choice(PLACES))
        elif kind == 2:
            self.command('replay', '-q', self.changed)
        else:
            self.command('replay', '-q', '--no-trace', '--json', self.changed)

    def command(self, *words):
        self.say('rr ' + ' '.join(words))
        self.counts['runs'] += 1
        with open(self.out, 'wb') as out, \
                open(self.out + '.err', 'wb') as err:
            process = subprocess.Popen(
                [self.backtrail, 'rr', *words], stdin=subprocess.DEVNULL,
                stdout=out, stderr=err, env=self.environment,
                cwd=self.folder)
        asked = False
        try:
            status = process.wait(WHOLE)
        except subprocess.TimeoutExpired:
            # A guest may run without end.
            asked = True
            self.counts['asked to end'] += 1
            process.send_signal(signal.SIGTERM)
            try:
                status = process.wait(END)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise campaign.Failure(f'{words}: SIGTERM does not end it') \
                    from None
        self.check(words, status, asked)

    def check(self, words, status, asked):
        with open(self.out, 'rb') as f:
            printed = f.read()
        with open(self.out + '.err', 'rb') as f:
            said = f.read()
        if status not in (0, 1, 2, 3) and \
                not (asked and status == -signal.SIGTERM):
            raise campaign.Failure(f'{words}: status {status}: '
                                   f'{said[-3000:]!r}')
        if b'runtime error' in said or b'Sanitizer' in said:
            raise campaign.Failure(f'{words}: {said[-3000:]!r}')
        if status and not asked and not said + printed:
            raise campaign.Failure(f'{words}: status {status}, and no word')
        for text in printed, said:
            leaks = hostile.leaks(text, '\n\t')
            if leaks:
                raise campaign.Failure(f'{words}: prints {leaks}')
        left = self.processes()
        deadline = time.monotonic() + END
        while left and time.monotonic() < deadline:
            time.sleep(0.05)
            left = self.processes()
        if left:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            raise campaign.Failure(f'{words}: leaves processes: {left}')

    def processes(self):
        """What was started by a command, and runs"""
        found = []
        for path in glob.glob('/proc/[0-9]*/environ'):
            try:
                with open(path, 'rb') as f:
                    if f'TORTURE_TOKEN={self.token}'.encode() in f.read():
                        found.append(int(path.split('/')[2]))
            except OSError:
                pass
        return found
