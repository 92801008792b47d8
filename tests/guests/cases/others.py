# SPDX-License-Identifier: GPL-2.0-or-later
"""what is no Linux, or runs below a hypervisor: no name is made up"""

import glob
import gzip
import os
import shutil
import subprocess
import time

import account
import kernels
import machine

CASES = {
    'memtest86+': {'package': r'memtest86\+', 'what': 'memtest86+x64.bin'},
    'ipxe': {'package': 'ipxe', 'what': 'ipxe.lkrn'},
    'u-boot': {'package': 'u-boot-qemu', 'what': 'u-boot.rom',
               'option': '-bios'},
    'xen': {'package': 'xen-hypervisor-4.[0-9]+-amd64', 'what': 'xen-4.*.gz',
            'under': '6.1-cloud'},
}


def unpacked(folder, package, what):
    """The path of a file of a package of Debian"""
    deb, = kernels.fetch(machine.release(), package)
    subprocess.run(['dpkg-deb', '-x', deb, folder], check=True)
    found = [path for path in sorted(glob.glob(f'{folder}/**/{what}',
                                               recursive=True))
             if os.path.isfile(path) and not os.path.islink(path)]
    # U-Boot has one for each machine; that for 32 bits starts as any does.
    found.sort(key=lambda path: ('x86' not in path, '64' in path, path))
    if not found:
        raise kernels.Missing(f'{package} has no {what}')
    return found[0]


def run(lab, package, what, option='-kernel', under=None):
    path = unpacked(os.path.join(lab.folder, 'package'), package, what)
    more = [option, path]
    if under:
        plain = os.path.join(lab.folder, 'xen')
        with gzip.open(path) as packed, open(plain, 'wb') as f:
            shutil.copyfileobj(packed, f)
        initrd = os.path.join(lab.folder, 'dom0')
        folder = kernels.make_initrd(kernels.table()[under], initrd)
        more = ['-kernel', plain, '-append', 'console=com1 loglvl=warning '
                'noreboot', '-initrd',
                f'{folder}/vmlinuz console=hvc0 quiet,{initrd}']
    with lab.guest(more=more, memory=768) as g:
        if under:
            # What its console then says depends on Xen.
            g.wait('about to get started', 120)
            time.sleep(15)
        else:
            time.sleep(4)
        trace = os.path.join(lab.folder, 'others.btrail')
        with g.traced('others.btrail', named=False):
            time.sleep(2)
        said = g.record.output()
    lab.sound(trace)
    named = [r for r in account.rows(trace, 'comm,dso,sym')
             if r['sym'] != account.UNKNOWN or
             not account.nameless(r['comm'])]
    lab.facts['record'] = said.strip().splitlines()[-1].partition(' ')[2]
    for row in named[:4]:
        lab.check('names', False, f'{row["records"]} records of '
                  f'{row["comm"]}, {row["sym"]}')
    lab.check('names', 'no Linux kernel' in said or 'a kernel is in' in said,
              f'record says nothing of what it has not found: {said}')
