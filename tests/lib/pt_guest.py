# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest of two vCPUs, of which streams of Intel PT are made"""

import os
import shutil
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
read -r what
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
rewrite)
    /bin/work rewrite &
    /bin/work rewrite &
    while :; do
        read -r _
    done;;
esac
'''


def program(*path):
    """A program of these tests"""
    name = os.path.join(BUILD, 'tests', *path)
    if not os.path.exists(name):
        raise unittest.SkipTest(f'{path[-1]} was not built: see scripts/deps')
    return name


def pack(folder):
    """The guest's initrd"""
    root = os.path.join(folder, 'root')
    for name in ('bin', 'dev', 'proc'):
        os.makedirs(os.path.join(root, name))
    with open(f'{root}/init', 'w', encoding='utf-8') as f:
        f.write(INIT)
    os.chmod(f'{root}/init', 0o755)
    shutil.copy('/bin/busybox', f'{root}/bin/busybox')
    shutil.copy(program('integration', 'storm-guest'), f'{root}/bin/short')
    shutil.copy(program('integration', 'pt-freeze-guest'), f'{root}/bin/work')
    for n in '1', '3':
        shutil.copy(program('integration', f'pt-twin-guest-{n}'),
                    f'{root}/bin/twin{n}')
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
