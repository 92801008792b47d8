# SPDX-License-Identifier: GPL-2.0-or-later
"""Raw traces of real guests, for benches: recorded once, then in the cache.

tests/bench/raw.h says what they are.  They are recorded by backtrail
record from a guest under the patched QEMU and then taken out of the trace, so
that changing the trace format does not change them.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time

import backtrail
import guest
import qemu


# Name: what it is, vCPUs, bt.workload, and is it traced from power-on?
TRACES = {
    'boot': ('firmware and kernel from power-on', 1, 'boot', True),
    'mixed': ('six programs of the test guest at once', 1, 'mixed', False),
    'compile': ('cc1 -O2 on C programs', 1, 'compile', False),
    'interpret': ('perl on C programs', 1, 'interpret', False),
    'smp': ('six programs at once, two vCPUs', 2, 'mixed', False),
}

VERSION = '1'                   # of what record() does
RECORDS = 64 << 20              # of all streams together
TOO_LONG = 600                  # seconds
KEEP = 15                       # in the cache

# What is compiled, and read by the interpreter
SOURCES = ('packer', 'sorter', 'caller', 'faulter', 'old32', 'beat',
           'workload')

COMPILE = '''#!/bin/sh
echo "BT: pid=$$ comm=compile"
while :; do
    for source in /workload/source/*.i; do
        /workload/cc1 -quiet -O2 -fpreprocessed "$source" -o /tmp/out.s ||
            echo "BT: error cc1 failed"
    done
done
'''

# Splits C into tokens, indexes functions by the triples of tokens in them, and
# looks for those that are most alike.
INTERPRET = r'''
$| = 1;
print "BT: pid=$$ comm=interpret\n";
while (1) {
    my (%count, %index, @functions);
    for my $path (@ARGV) {
        open(my $in, '<', $path) or die "BT: error $path: $!\n";
        my $text = do { local $/; <$in> };
        my ($depth, $name, @tokens) = (0, '');
        while ($text =~ /\G\s*(?:("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
                         |([A-Za-z_]\w*)|(\d[\w.]*)|(\S))/gcx) {
            my $token = defined $1 ? 'S' : defined $3 ? '0' : $2 // $4;
            if (defined $2) {
                $count{$2}++;
                $name = $2 if !$depth;
            }
            $depth++ if $token eq '{';
            push @tokens, $token if $depth;
            if ($token eq '}' && !--$depth) {
                push @functions, { name => $name, tokens => [@tokens] };
                @tokens = ();
            }
        }
    }
    for my $i (0 .. $#functions) {
        my $tokens = $functions[$i]{tokens};
        for my $j (2 .. $#$tokens) {
            $index{join ' ', @$tokens[$j - 2 .. $j]}{$i}++;
        }
    }
    my %alike;
    for my $where (values %index) {
        my @places = sort { $a <=> $b } keys %$where;
        next if @places > 20;
        while (defined(my $i = shift @places)) {
            for my $j (@places) {
                $alike{"$i $j"} += $where->{$i} < $where->{$j} ?
                    $where->{$i} : $where->{$j};
            }
        }
    }
    my @pairs = sort { $alike{$b} <=> $alike{$a} || $a cmp $b } keys %alike;
    my $page = '';
    for my $pair (@pairs) {
        my ($i, $j) = split / /, $pair;
        $page .= sprintf "%-20s %-20s %5d\n", $functions[$i]{name},
            $functions[$j]{name}, $alike{$pair};
    }
    for my $word (sort { $count{$b} <=> $count{$a} || $a cmp $b }
                  keys %count) {
        $page .= ucfirst(lc $word) . ": $count{$word}\n";
    }
    $page =~ s/(\w+)_(\w+)/$2$1/g;
}
'''


def _output(*args):
    return subprocess.run(args, check=True, stdout=subprocess.PIPE,
                          text=True).stdout


def _add_program(root, program, path):
    """Copy a program and the libraries it needs into a root folder."""
    os.makedirs(os.path.dirname(root + path), exist_ok=True)
    shutil.copy(program, root + path)
    for line in _output('ldd', program).splitlines():
        for word in line.split():
            if word.startswith('/'):
                os.makedirs(os.path.dirname(root + word), exist_ok=True)
                shutil.copy(word, root + word)


def _programs(archive):
    """Write an archive with a compiler and an interpreter for the guest.

    The kernel unpacks it after that of the guest.
    """
    with tempfile.TemporaryDirectory(prefix='backtrail-bench-') as root:
        source = os.path.join(root, 'workload', 'source')
        os.makedirs(source)
        for name in SOURCES:
            subprocess.run(
                ['gcc', '-std=gnu11', '-E', '-P', '-o',
                 os.path.join(source, name + '.i'),
                 os.path.join(qemu.TOP, 'tests', 'guest', name + '.c')],
                check=True)
        _add_program(root, _output('gcc', '-print-prog-name=cc1').strip(),
                     '/workload/cc1')
        _add_program(root, '/usr/bin/perl', '/workload/perl')
        for name, text in (
                ('compile', COMPILE),
                ('interpret.pl', INTERPRET),
                ('interpret', '#!/bin/sh\n'
                 'exec /workload/perl /workload/interpret.pl '
                 '/workload/source/*.i\n')):
            path = os.path.join(root, 'workload', name)
            with open(path, 'w', encoding='ascii') as f:
                f.write(text)
            os.chmod(path, 0o755)
        paths = []
        for folder, _, files in os.walk(root):
            paths += [os.path.relpath(os.path.join(folder, name), root)
                      for name in ['.', *files]]
        for path in paths:
            os.utime(os.path.join(root, path), (0, 0))
        with open(archive, 'wb') as f:
            subprocess.run(
                ['cpio', '--quiet', '--reproducible', '-R', '0:0', '-H',
                 'newc', '-o'], cwd=root, stdout=f, check=True,
                input='\n'.join(sorted(set(map(os.path.normpath, paths)))),
                text=True)


def _initrd(path):
    """Write the guest's initrd with more programs; return a hash of it."""
    with tempfile.NamedTemporaryFile() as archive:
        _programs(archive.name)
        with open(path, 'wb') as out:
            for part in (os.path.join(guest.folder(), 'initrd'),
                         archive.name):
                with open(part, 'rb') as f:
                    shutil.copyfileobj(f, out)
                # Archives begin at multiples of four bytes.
                out.write(bytes(-out.tell() % 4))
    return _hash(path)


def _hash(path):
    with open(path, 'rb') as f:
        return hashlib.file_digest(f, 'sha256').hexdigest()


def record(name, initrd, records, path):
    """Trace a guest until there are this many records, or it ends."""
    _, vcpus, workload, boot = TRACES[name]
    args = guest.args(f'bt.workload={workload}', memory='512', whole=True)
    args[args.index('-initrd') + 1] = initrd
    if boot:
        # The ELF file: most of what a bzImage does is to unpack that.
        args[args.index('-kernel') + 1] = guest.vmlinux()
    with qemu.Qemu(['-accel', 'tcg', '-S', '-smp', str(vcpus), '-device',
                    'branch-trace', *args], qmp_sockets=2) as vm:
        if not boot:
            vm.qmp.command('cont')
            # Not before: it may have waited for the kernel's random numbers,
            # and the kernel makes them by waiting busily.
            vm.wait_serial('^BT: pid=', TOO_LONG)
        with backtrail.Record(vm.qmp_paths[1], path, path + '.log') as agent:
            while vm.qmp.command('query-branch-trace')['state'] != 'active':
                if agent.process.poll() is not None:
                    raise qemu.QemuError(agent.output())
                time.sleep(0.01)
            if boot:
                vm.qmp.command('cont')
            deadline = time.monotonic() + TOO_LONG
            made = 0
            while made < records and vm.process.poll() is None:
                if time.monotonic() > deadline:
                    raise qemu.QemuError(f'{name}: no {records} records '
                                         f'within {TOO_LONG} s')
                time.sleep(0.05)
                try:
                    info = vm.qmp.command('query-branch-trace')
                except (ConnectionError, BrokenPipeError):
                    break
                # Each stream must have its part.
                made = vcpus * min(v['records'] for v in info['vcpus'])
            if 'BT: error' in vm.serial():
                raise qemu.QemuError(f'{name}: {vm.tail()}')
            status = agent.stop() if vm.process.poll() is None \
                else agent.wait()
            if status:
                raise qemu.QemuError(f'backtrail record: {agent.output()}')


def _extract(trace, folder, records):
    """Run tests/bench/extract, which is built here."""
    build = os.path.dirname(os.path.dirname(os.path.dirname(
        backtrail.binary())))
    subprocess.run(['ninja', '-C', build, 'tests/bench/extract'], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run([os.path.join(build, 'tests', 'bench', 'extract'), trace,
                    folder, str(records)], check=True)


def _prune(top):
    folders = [os.path.join(top, name) for name in os.listdir(top)]
    folders.sort(key=os.path.getmtime, reverse=True)
    for folder in folders[KEEP:]:
        shutil.rmtree(folder)


def folders(names, records=RECORDS, say=lambda text: None, keep=None):
    """{name: folder} of raw traces; those that are missing are recorded.

    keep(name, path) is called with each trace that is recorded.
    """
    top = os.path.join(qemu.cache(), 'rawtraces')
    os.makedirs(top, exist_ok=True)
    result = {}
    with open(os.path.join(qemu.cache(), 'rawtraces.lock'), 'w',
              encoding='ascii') as lock, \
            tempfile.TemporaryDirectory(prefix='backtrail-bench-') as scratch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        initrd = os.path.join(scratch, 'initrd')
        parts = [VERSION, str(records), _hash(qemu.patched()),
                 _hash(os.path.join(guest.folder(), 'vmlinuz')),
                 _initrd(initrd)]
        for name in names:
            key = hashlib.sha256('\n'.join(
                [*parts, *map(str, TRACES[name])]).encode())
            folder = os.path.join(top, f'{name}-{key.hexdigest()[:16]}')
            result[name] = folder
            if os.path.isdir(folder):
                os.utime(folder)
                continue
            say(f'recording {name}: {TRACES[name][0]}')
            trace = os.path.join(scratch, f'{name}.btrail')
            record(name, initrd, records, trace)
            os.mkdir(trace + '.raw')
            _extract(trace, trace + '.raw', records // TRACES[name][1])
            if keep:
                keep(name, trace)
            shutil.copytree(trace + '.raw', folder + '.new',
                            dirs_exist_ok=True)
            os.rename(folder + '.new', folder)
        _prune(top)
    return result
