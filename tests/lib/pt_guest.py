# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest of two vCPUs, of which streams of Intel PT are made"""

import os
import re
import shutil
import subprocess
import unittest

import guest
import qemu

BUILD = os.environ.get('BACKTRAIL_BUILD', os.path.join(qemu.TOP, 'build'))
VCPUS = 2

INIT = '''#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
/bin/busybox mount -t proc proc /proc
echo "BT: ready"
read -r second </proc/cmdline
case $second in
*bt.second*)
    what=mixed;;
*)
    read -r what;;
esac
case $what in
mixed)
    /bin/work &
    /bin/work &
    while :; do
        /bin/short
        /bin/busybox usleep 20000
    done;;
storm)
    while :; do
        /bin/short
    done;;
twins)
    while :; do
        /bin/twin1
        /bin/twin3
    done;;
modules)
    /bin/change modules /modules/twin1.ko /modules/twin3.ko & ;;
bpf)
    /bin/change bpf & ;;
events)
    /bin/work &
    /bin/busybox mount -t tracefs tracefs /trace
    /bin/change patch /trace/events/syscalls/sys_enter_getppid/enable & ;;
switches)
    /bin/work &
    /bin/busybox mount -t tracefs tracefs /trace
    /bin/change patch /trace/events/sched/sched_switch/enable & ;;
functions)
    /bin/work &
    /bin/busybox mount -t tracefs tracefs /trace
    echo "*getppid*" >/trace/set_ftrace_filter
    echo function >/trace/current_tracer
    /bin/change patch /trace/tracing_on &
    while :; do
        echo nop >/trace/current_tracer
        echo function >/trace/current_tracer
    done;;
maps | turns | alias | spaces)
    /bin/change $what & ;;
kexec)
    /bin/work &
    /bin/change kexec /second/vmlinuz /second/initrd \
        "$second bt.second nokaslr" & ;;
exec)
    /bin/change exec 3 & ;;
old32)
    /bin/old32 &
    while :; do
        /bin/short
        /bin/busybox usleep 20000
    done;;
rewrite)
    /bin/work rewrite &
    /bin/work rewrite & ;;
esac
while :; do
    read -r _
done
'''


def program(*path):
    """A program of these tests"""
    name = os.path.join(BUILD, 'tests', *path)
    if not os.path.exists(name):
        raise unittest.SkipTest(f'{path[-1]} was not built: see scripts/deps')
    return name


def build_module(path, like, padding):
    """A module without the kernel's headers: it is like another one"""
    def read(*args):
        return subprocess.run(['readelf', *args, '-W', like], check=True,
                              stdout=subprocess.PIPE, text=True).stdout

    relocations = read('-r').partition("this_module'")[2]
    places = {name: int(re.search(rf'^(\w+) .* {name}_module ', relocations,
                                  re.M)[1], 16)
              for name in ('init', 'cleanup')}
    size = int(re.search(r'this_module +PROGBITS +\w+ \w+ (\w+)',
                         read('-S'))[1], 16)
    with open(like, 'rb') as f:
        magic = re.search(rb'vermagic=[ -~]*', f.read())[0].decode()
    subprocess.run(
        ['gcc', '-c', f'-DPADDING={padding}', f'-DNAME="twin{padding}"',
         f'-DMODULE_SIZE={size}', f'-DMODULE_INIT={places["init"]}',
         f'-DMODULE_EXIT={places["cleanup"]}', f'-DVERMAGIC="{magic}"',
         '-o', path, os.path.join(qemu.TOP, 'tests', 'integration',
                                  'pt-twin-module.S')], check=True)


def pack(folder, second=False):
    """The guest's initrd; that of a second kernel, and this, are in it, if that
    is to be started."""
    root = os.path.join(folder, 'root')
    usual = os.path.join(folder, 'usual')
    for name in ('bin', 'dev', 'proc', 'modules', 'trace'):
        os.makedirs(os.path.join(root, name))
    guest.unpack(usual)
    old32 = f'{usual}/workload/old32'
    if os.path.exists(old32):
        shutil.copy(old32, f'{root}/bin/old32')
    with open(f'{root}/init', 'w', encoding='utf-8') as f:
        f.write(INIT)
    os.chmod(f'{root}/init', 0o755)
    shutil.copy('/bin/busybox', f'{root}/bin/busybox')
    shutil.copy(program('integration', 'storm-guest'), f'{root}/bin/short')
    shutil.copy(program('integration', 'pt-freeze-guest'), f'{root}/bin/work')
    shutil.copy(program('integration', 'pt-change-guest'),
                f'{root}/bin/change')
    for n in '1', '3':
        build_module(f'{root}/modules/twin{n}.ko',
                     f'{usual}/modules/pvpanic-pci.ko', n)
        shutil.copy(program('integration', f'pt-twin-guest-{n}'),
                    f'{root}/bin/twin{n}')
    guest.pack(root, os.path.join(folder, 'initrd'))
    if second:
        os.mkdir(f'{root}/second')
        os.rename(os.path.join(folder, 'initrd'), f'{root}/second/initrd')
        shutil.copy(os.path.join(guest.folder(), 'vmlinuz'), f'{root}/second')
        guest.pack(root, os.path.join(folder, 'initrd'))
    return os.path.join(folder, 'initrd')


def arguments(initrd):
    """Of the QEMU"""
    args = guest.args()
    args[args.index('-initrd') + 1] = initrd
    return ['-accel', 'tcg', '-smp', str(VCPUS), '-device', 'branch-trace',
            '-object', 'memory-backend-memfd,id=ram,size=256M,share=on',
            '-machine', 'pc,memory-backend=ram', '-device', 'vmcoreinfo',
            *args]


def numbers(line):
    """What a line says in words and numbers"""
    words = line.split()
    return {word: int(number) for word, number in zip(words[::2], words[1::2])
            if word != 'forms'}
