# SPDX-License-Identifier: GPL-2.0-or-later
"""Put things into a trace that break no rule, and that no guest has.

mutate.py changes what is there; this makes more of it: records that call,
return, loop and leave marks, tasks, kernels, address spaces and vCPUs, code,
symbols that come and go, processes, functions of files, and footprints that say
the truth or do not.  Each function takes a source of random numbers, the file,
and other files; it returns what it did, or None if there was nothing to do.
"""

import functools
import glob
import os
import struct

import qemu
import traceformat
from mutate import (Block, Chunk, CODE, EDGES, NAMES, PROCESSES, SYMBOLS,
                    SYSCALLS, crc32c, decompress, number, some_block, store)
from traceformat import (CR3, DATA, GAP, KERNEL, MASK, SIDEBAND, TASK, TIME,
                         Damaged, get_sideband, varint, zigzag)

IMAGE, DYNAMIC, TOLD_PROCESSES, TOLD_SYMBOLS, HELD, ENDED = 4, 6, 7, 8, 9, 10
PAUSE, RESUME, STREAM_END = 4, 5, 6

KERNEL_TEXT = 0xffffffff81000000
MODULES = 0xffffffffc0000000
USER = 0x400000
SPACING = 0x100
PAGE = 4096
NO_ICOUNT = MASK

# Pseudo-addresses: into and out of what is not traced
PSEUDO = (1 << 63, (1 << 63) + 1, (1 << 63) + 2, (1 << 63) + 3, (1 << 63) + 4,
          (1 << 63) + 15, 1 << 62, (1 << 62) + 15)

# Functions of Linux that readers know by name, and others
FUNCTIONS = (
    b'entry_SYSCALL_64', b'asm_exc_page_fault', b'asm_common_interrupt',
    b'asm_exc_nmi', b'asm_sysvec_apic_timer_interrupt', b'idt_table',
    b'early_idt_handler_array', b'irq_entries_start', b'__switch_to_asm',
    b'ret_from_fork_asm', b'do_exit', b'do_task_dead', b'panic',
    b'__x64_sys_read', b'__ia32_sys_read', b'__x64_sys_exit', b'vfs_read',
    b'__x86_indirect_thunk_rax', b'__x86_indirect_thunk_array',
    b'return_thunk', b'__x86_return_thunk', b'bpf_prog_1', b'schedule',
    b'do_syscall_64', b'common_interrupt_return', b'native_iret',
    b'paranoid_exit', b'kmem_cache_alloc', *NAMES)
MODULE_NAMES = (b'', b'', b'', b'bpf', b'kprobes', b'a', b'__builtin__ftrace',
                b'\x1b[31m')

# Instructions: calls, returns, jumps, system calls, ends of blocks, padding
CODE_BYTES = (
    b'\xe8\0\0\0\0', b'\xe8\xfb\xff\xff\xff', b'\xff\xd0', b'\xc3',
    b'\xc2\x08\0', b'\xeb\xfe', b'\xe9\xfb\0\0\0', b'\xff\xe0', b'\x74\x02',
    b'\x0f\x84\x10\0\0\0', b'\x0f\x05', b'\x0f\x34', b'\xcd\x80', b'\x0f\x0b',
    b'\x48\xcf', b'\x0f\x07', b'\xf3\x90', b'\x0f\xae\xe8', b'\xf4', b'\xcc',
    b'\x90' * 40, b'\x66' * 14, b'\x0f\x1f\x84\0\0\0\0\0', b'\x0f\x01\xd8',
    b'\xe8\x07\0\0\0\xf3\x90\x0f\xae\xe8\xeb\xf9\x48\x89\x04\x24\xc3')
SMALL = [varint(i) for i in range(128)]
KEPT_SEEDS = 'dynamic-symbols', 'file-functions', 'mark'


@functools.cache
def fuzz_seeds(name):
    found = []
    for path in sorted(glob.glob(os.path.join(qemu.TOP, 'tests', 'fuzz',
                                              'seeds', name, '*'))):
        with open(path, 'rb') as f:
            found.append(f.read())
    return found


def how_many(r, most):
    """Mostly few"""
    return r.choice((1, 2, 3, 10, r.randrange(1, most + 1)))


def sideband(r, kind, data, time=None, kernel=None):
    """A chunk of its own"""
    size = len(data)
    if time is None:
        time = r.choice((0, 1, r.randrange(1 << 31), r.choice(EDGES)))
    if kernel is None:
        kernel = r.choice((0, 0, 0, 1, 2, 3, 257, 65535))
    return Chunk(SIDEBAND, struct.pack('<HHIQ', kind, kernel, size, time) +
                 store(data))


def add(r, file, chunk):
    file.chunks.insert(r.randrange(len(file.chunks) + 1), chunk)


def name(r):
    return r.choice(FUNCTIONS).split(b'\0')[0].replace(b' ', b'_') \
        .replace(b'\n', b'_').replace(b'\t', b'_') or b'x'


# What is wanted for records, of all that the file says

def places(r, file):
    """Linear addresses that mean something"""
    found = [KERNEL_TEXT + SPACING * i for i in range(len(FUNCTIONS))]
    found += [USER, USER + PAGE, MODULES, 0x1000, 0, MASK, *PSEUDO]
    for chunk in file.of(SIDEBAND):
        try:
            kind, size, _ = get_sideband(chunk.payload)
            if size > 1 << 18:
                continue
            data = decompress(chunk.payload[16:], size)
            if kind == CODE:
                found += [e[4] for e in traceformat.get_code(data)[0][:50]]
            elif kind in (SYMBOLS, TOLD_SYMBOLS):
                found += [int(line.split()[0], 16) & MASK for line in
                          data.split(b'\n')[:200] if line.split()]
        except (Damaged, struct.error, ValueError):
            pass
    return found


def records(r, found):
    """Branches of a program that nobody would write"""
    out, stack = [], []
    at = r.choice(found)
    small = r.sample(found, min(len(found), r.choice((2, 3, 8, 40))))
    kinds = r.choices(range(7), k=r.choice((1, 2, 7)))
    for _ in range(r.choice((1, 5, 60, 400, 2000))):
        kind = r.choice(kinds)
        start = at + r.choice((0, 1, 5, 0x10, 0x20, r.randrange(512)))
        if kind < 2:                    # a call
            to = r.choice(small)
            stack.append(start + r.choice((5, 5, 5, 2, 3, 7)))
        elif kind == 2 and stack:       # a return, perhaps of several
            for _ in range(r.choice((1, 1, 1, 2, 9))):
                to = stack.pop() if stack else at
        elif kind == 3:                 # a loop
            to = at
        elif kind == 4:
            to = at + r.choice((-1, 1)) * r.randrange(1 << r.randrange(1, 40))
        elif kind == 5:                 # a mark goes over what it says
            to = start + 13 + r.randrange(40)
        else:
            to = r.choice(found) + r.choice((0, 0, 1, 0xfff))
        out.append((start & MASK, to & MASK))
        at = to & MASK
    return out * r.choice((1, 1, 1, 1, 5, 30))


def encode(pairs, codec):
    """Sections of records, each of which is an edge that is new.  So nothing
    is ever predicted, and the tables of codecs are not needed."""
    lengths, targets, distances = bytearray(), bytearray(), bytearray()
    before = 0
    for start, to in pairs:
        lengths += varint(start - before & MASK)
        z = zigzag(to - start & MASK)
        if z < 128 and z != 1:
            targets.append(z)
        else:
            targets.append(128 + z % 128)
            distances += varint(z >> 7)
        before = to
    sections = [b'\2' * len(pairs), b'', b'', b'', bytes(lengths), b'',
                bytes(targets), b'', bytes(distances), b'', b'']
    if codec in (2, 4, 6, 8):
        sections.append(b'')
    return sections


def footprint(pairs, before=None, gap=False):
    """As docs/trace-format.md demands it"""
    lines, any_ran = set(), False
    last = before
    for start, to in pairs:
        if last is not None:
            first, end = last >> 6, start >> 6
            if start >= last and end - first >= 1024:
                any_ran = True
            elif start >= last:
                lines.update(range(first, end + 1))
            else:
                lines.update((first, end))
        last = to
    flags = (1 if gap else 0) | (2 if any_ran else 0)
    return pack_footprint(flags, [] if any_ran else runs_of(sorted(lines)))


def runs_of(lines):
    runs = []
    for line in lines:
        if runs and runs[-1][1] == line - 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return runs


def pack_footprint(flags, runs):
    out, end = bytearray(varint(flags)), 0
    for first, last in runs:
        out += varint(first - end & MASK) + varint(last - first & MASK)
        end = last + 1
    return struct.pack('<I', crc32c(bytes(out))) + bytes(out)


def set_footprint(block, data):
    """The block has it, whatever its codec was"""
    h = block.head
    if h['codec'] in (1, 2, 5, 6):
        h['codec'] += 2
        block.sections.append(data)
    else:
        block.sections[-1] = data


def places_of(block):
    """Events, each with the number of records before it"""
    at, out = 0, []
    for row in block.rows():
        at += row[0]
        out.append((at, row))
    return out


def set_places(block, events):
    rows, last = [], 0
    for at, row in events:
        rows.append([at - last, *row[1:]])
        last = at
    block.set_rows(rows[:1 << 16])


def put_back(file, chunk, block):
    """The chunk has this block, and the next ones of its vCPU come after."""
    chunk.payload = block.pack()
    vcpu, end = block.head['vcpu'], block.head['end']
    for other in file.chunks[file.chunks.index(chunk) + 1:]:
        if other.kind != DATA or len(other.payload) < 88:
            continue
        number_of, _, first, last = struct.unpack_from('<IIQQ', other.payload)
        if number_of != vcpu:
            continue
        if first >= end:
            break
        try:
            after = Block(other.payload)
        except (Damaged, struct.error):
            break
        after.head['first'] = end
        after.head['end'] = end = end + last - first & MASK
        other.payload = after.pack()


def grow_records(r, file, others):
    chunk, block = some_block(r, file)
    if not block or block.head['codec'] not in range(1, 9):
        return None
    h = block.head
    pairs = records(r, places(r, file))[:60000]
    events = [(min(at, len(pairs)), row) for at, row in places_of(block)]
    last = block.sections[block.events]
    tail = block.sections[block.events + 1:]
    block.sections = [*encode(pairs, h['codec']), last, *tail]
    h['records'] = len(pairs)
    set_places(block, events)
    if r.random() < 0.5:
        set_footprint(block, footprint(pairs))
    block.settle()
    put_back(file, chunk, block)
    return f'{len(pairs)} records'


def event(r, cr3s):
    """Type, reason, index, data"""
    kind = r.choice((TASK, TASK, TASK, KERNEL, KERNEL, CR3, CR3, CR3, TIME,
                     TIME, PAUSE, RESUME, GAP))
    if kind == TASK:
        tid, pid = (r.choice((0, 1, 7, 11, 12, (1 << 32) - 1,
                              r.getrandbits(32))) for _ in 'tp')
        text = r.choice(NAMES)[:16].ljust(16, b'\0')
        return [TASK, r.choice((0, 0, 0, 1, 2, 3)), 0, pid << 32 | tid,
                *struct.unpack('<QQ', text)]
    if kind == KERNEL:
        return [KERNEL, r.choice((0, 0, 0, 1, 1, 2, 3)), 0,
                r.choice((0, 1, 2, 3, 257, 65535, 65536)),
                r.choice((0, *cr3s)), 0]
    if kind == CR3:
        return [CR3, 0, 0, r.choice(cr3s), 0, 0]
    if kind == TIME:
        step = zigzag(r.choice((1, 1000, 1000000, -1, -1000000,
                                r.choice(EDGES))) & MASK)
        return [TIME, 0, 0, step, step, r.choice((0, step))]
    if kind == GAP:
        return [GAP, r.randrange(9), 0, r.choice((0, 1, 100, MASK)), 0, 0]
    return [kind, r.randrange(4), 0, r.randrange(1 << 32), 0, 0]


def grow_events(r, file, others):
    """Threads, kernels, address spaces and times, at any records"""
    chunk, block = some_block(r, file)
    if not block:
        return None
    cr3s = [r.choice((1 << 63, 1 << 60, 0)) | r.randrange(1 << 20) * PAGE |
            r.choice((0, 0, 1, 0xfff)) for _ in range(how_many(r, 100))]
    cr3s += [0, 0x1000, 0x5000, 0x100000]
    n = how_many(r, 2000)
    events = places_of(block)
    events += [(r.randrange(block.head['records'] + 1), [0, *event(r, cr3s)])
               for _ in range(n)]
    events.sort(key=lambda e: e[0])
    set_places(block, events)
    block.settle()
    put_back(file, chunk, block)
    return f'{n} events'


def grow_vcpus(r, file, others):
    """The same block, of many vCPUs"""
    chunk, block = some_block(r, file)
    if not block:
        return None
    used = set()
    for other in file.of(DATA):
        used.update(struct.unpack_from('<I', other.payload))
    free = [v for v in range(1024) if v not in used]
    vcpus = r.sample(free, min(len(free), r.choice((1, 2, 3, 7, 30, 200))))
    for vcpu in vcpus:
        block.head['vcpu'] = vcpu
        file.chunks.append(Chunk(DATA, block.pack()))
    return f'{len(vcpus)} vCPUs more'


def grow_blocks(r, file, others):
    """A block again and again, with or without holes between"""
    chunk, block = some_block(r, file)
    if not block:
        return None
    h = block.head
    size = h['end'] - h['first'] & MASK
    n = r.choice((1, 2, 10, 60))
    at = file.chunks.index(chunk) + 1
    for _ in range(n):
        h['first'] = h['end'] + r.choice((0, 0, 0, 1, 1 << 40)) & MASK
        h['end'] = h['first'] + size & MASK
        file.chunks.insert(at, Chunk(DATA, block.pack()))
        at += 1
    put_back(file, file.chunks[at - 1], block)
    return f'{n} blocks more'


def change_footprint(r, file, others):
    """Footprints that lie, and say much in few bytes"""
    chunk, block = some_block(r, file)
    if not block:
        return None
    kind = r.randrange(6)
    if kind == 0:
        runs = []
    elif kind == 1:
        runs = [(0, (1 << 58) - 1)]
    elif kind == 2:
        runs = [(3 * i, 3 * i) for i in range(r.choice((10, 3000)))]
    elif kind == 3:
        first = r.choice(places(r, file)) >> 6
        runs = [(first, first + r.randrange(2000))]
    elif kind == 4:
        runs = [(r.choice(EDGES), r.choice(EDGES)) for _ in range(5)]
    else:
        runs = runs_of(sorted({p >> 6 for p in places(r, file)}))
    data = pack_footprint(r.choice((0, 0, 0, 1, 2, 3, r.choice(EDGES))), runs)
    if r.random() < 0.1:
        data = data[:-1]
    set_footprint(block, data)
    chunk.payload = block.pack()
    return f'footprint, kind {kind}'


def table(r):
    """Symbols of a kernel and its modules"""
    lines, at = [], r.choice((KERNEL_TEXT, KERNEL_TEXT, MODULES, USER, 0,
                              MASK - 0x1000, 0xc1000000))
    spacing = r.choice((SPACING, SPACING, SPACING, 0, 1, 0x1000, 1 << 40))
    names = r.choice((FUNCTIONS, FUNCTIONS, [name(r)] * how_many(r, 3000)))
    for i, text in enumerate(names):
        text = text.split(b'\0')[0].replace(b' ', b'_').replace(b'\n', b'_') \
            .replace(b'\t', b'_')
        module = r.choice(MODULE_NAMES) if r.random() < 0.1 else b''
        lines.append(b'%x %s %s%s' % (
            at + spacing * i & MASK, r.choice((b't', b'T', b't', b'd', b'e')),
            text, b'\t[' + module + b']' if module else b''))
        if r.random() < 0.05:
            lines.append(b'%x e .end%s' % (
                at + spacing * i + spacing // 2 & MASK,
                b'\t[' + module + b']' if module else b''))
    return b'\n'.join(lines) + b'\n'


def grow_symbols(r, file, others):
    """Tables that come, hold and go, of one kernel or several"""
    n = r.choice((1, 1, 2, 3, 20))
    time = 0
    for _ in range(n):
        time += r.choice((0, 1, 1000, 1000000, 1 << 40))
        kind = r.choice((SYMBOLS, SYMBOLS, SYMBOLS, TOLD_SYMBOLS))
        add(r, file, sideband(r, kind, table(r), time))
        what = r.randrange(4)
        if what == 0:
            add(r, file, sideband(r, HELD, b'', time + r.randrange(2000000)))
        elif what == 1:
            add(r, file, sideband(r, ENDED, struct.pack(
                '<Q', time + r.choice((0, 1, 1000000, r.choice(EDGES))) & MASK),
                time))
    return f'{n} tables of symbols'


def grow_syscalls(r, file, others):
    lines = [b'%d %d %x' % (r.choice((64, 32, 64, 16)),
                            r.choice((i, 0, r.choice(EDGES))),
                            r.choice(places(r, file)))
             for i in range(how_many(r, 1000))]
    add(r, file, sideband(r, SYSCALLS, b'\n'.join(lines)))
    return f'{len(lines)} system calls'


def page(r):
    """Code of which some can be decoded"""
    kind = r.randrange(5)
    if kind == 0:
        data = r.randbytes(PAGE)
    elif kind == 1:
        data = r.choice(CODE_BYTES) * PAGE
    elif kind == 2:
        data = b''.join(r.choices(fuzz_seeds('mark') or CODE_BYTES, k=30))
    else:
        data = b''.join(r.choices(CODE_BYTES, k=PAGE))
    return data[:PAGE].ljust(PAGE, r.choice((b'\0', b'\x90', b'\xcc')))


def grow_code(r, file, others):
    """Pages whose code changes, has changed, or never was"""
    n = how_many(r, 100)
    contents = [page(r) for _ in range(r.choice((0, 1, 1, 2, 3)))]
    bases = r.choices(places(r, file), k=r.choice((1, 3, 20)))
    out = [b'']
    for i in range(n):
        linear = (r.choice(bases) & ~(PAGE - 1)) + \
            r.choice((0, 0, PAGE, i * PAGE)) & MASK
        out.append(struct.pack(
            '<II5Q', r.choice((0, 0, 1, 1023, r.getrandbits(32))),
            r.choice((0, 0, 1, r.getrandbits(32))),
            r.choice((0, 0, 10, r.randrange(3000), r.choice(EDGES))),
            r.choice((0x1000, 0x5000, 0, r.choice(EDGES))), linear,
            r.choice((MASK, 0, linear & 0xffffffff, MASK - 1)),
            r.choice((0, 1, 2, 3, 77, MASK))))
    same = [struct.pack('<QQ', *(r.choice((1, 2, 3, 4, 77)) for _ in 'ab'))
            for _ in range(r.choice((0, 0, 1, 5, 500)))]
    out[0] = struct.pack('<IIII', n, len(same), len(contents), 0)
    out += same
    out += [struct.pack('<Q', i + 1) for i in range(len(contents))]
    add(r, file, sideband(r, CODE, b''.join((*out, *contents))))
    return f'{n} pages of code'


def grow_files(r, file, others):
    """Functions of a program, or an image of one: an ELF file"""
    seeds = fuzz_seeds(r.choice(KEPT_SEEDS[:2]))
    if not seeds:
        return None
    data = bytearray(r.choice(seeds))
    for _ in range(r.choice((0, 1, 3, 30))):
        at = r.randrange(len(data)) if r.random() < 0.5 else \
            r.randrange(min(512, len(data)))
        size = r.choice((1, 2, 4, 8))
        old = int.from_bytes(data[at:at + size], 'little')
        data[at:at + size] = number(r, old, 8 * size).to_bytes(size, 'little')
    kind = r.choice((DYNAMIC, DYNAMIC, IMAGE))
    add(r, file, sideband(r, kind, bytes(data)))
    return f'a file, kind {kind}'


def snapshot(r, base):
    """Of processes, some with the same page tables, or the same memory"""
    strings = [b'', b'init', b'/bin/true', b'[vdso]', b'\xab' * 20,
               *(text.replace(b'\0', b'') for text in NAMES)]
    out = []

    def put(*values):
        for v in values:
            out.append(SMALL[v] if v < 128 else varint(v & MASK))

    def text():
        return r.randrange(len(strings))

    n = how_many(r, 30)
    for i in range(n):
        flags = r.choice((0, 0, 0, 0, 1, 2, 4))
        put(r.choice((0x1000, 0x5000, 0x1000 * (i + 1), r.choice(EDGES))),
            r.choice((0, 0, 0x2000, r.choice(EDGES))),
            0 if flags & 1 else 0xffff888000000000 + 64 * r.randrange(3),
            r.choice((0, 1000, 1000000, r.choice(EDGES))),
            r.choice((0, 1 << 30, r.randrange(1 << 31))),
            r.choice((0, 0, 1000, r.randrange(1 << 31))), flags,
            r.choice((1, 7, 11, 12, i, (1 << 32) - 1)),
            *(() if flags & 4 else (0, text(), text(), text())))
        if flags & 4:
            put(0, 0, 0, 0)
        threads = r.choice((0, 0, 1, 2, 3, 60)) if not flags & 4 else 0
        put(threads)
        for k in range(threads):
            put(k > 0 or r.randrange(20), r.randrange(3), r.randrange(3),
                text())
        mappings = r.choice((0, 0, 1, 2, 3, 100)) if not flags & 4 else 0
        put(mappings)
        for k in range(mappings):
            put(r.choice((USER, 0x10000, 0, 1 << 33)) if not k else
                r.choice((0, 0, PAGE)), r.choice((PAGE, 1, 16 * PAGE,
                                                  r.choice(EDGES) or 1)),
                r.choice((0, PAGE, r.choice(EDGES))),
                r.choice((21, 21, 5, 63, r.getrandbits(6))), text(), text())
    head = [varint(v) for v in (r.choice((0, 1)), base, r.randrange(1000),
                                len(strings))]
    for one in strings:
        head += [varint(len(one)), one]
    return b''.join((*head, varint(n), *out))


def grow_processes(r, file, others):
    n = r.choice((1, 1, 2, 5))
    for _ in range(n):
        time = r.choice((1, 1000, 10000000, 1 << 31, r.choice(EDGES)))
        time = min(time, MASK - 1)
        add(r, file, sideband(
            r, r.choice((PROCESSES, PROCESSES, TOLD_PROCESSES)),
            snapshot(r, time), time))
    return f'{n} snapshots'


def renumber_kernels(r, file, others):
    """Sideband is of another kernel."""
    chunks = [c for c in file.of(SIDEBAND) if len(c.payload) >= 16]
    if not chunks:
        return None
    for chunk in r.sample(chunks, r.randrange(1, len(chunks) + 1)):
        chunk.payload = chunk.payload[:2] + struct.pack(
            '<H', r.choice((0, 1, 2, 3, 65535))) + chunk.payload[4:]
    return 'sideband of other kernels'


GROWTHS = (grow_records, grow_records, grow_records, grow_events, grow_events,
           grow_events, grow_vcpus, grow_blocks, change_footprint,
           grow_symbols, grow_symbols, grow_syscalls, grow_code, grow_code,
           grow_files, grow_processes, grow_processes, renumber_kernels)
