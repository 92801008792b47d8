/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a guest says of its processes: the messages between
 * backtrail-guest-names, which runs in the guest, and the agent
 *
 * They go through a stream of bytes, as a rule a port of virtio-serial.  Each
 * is a struct btrail_guest_header and @size bytes: the struct of its type, and
 * what that says comes after it.  All numbers are little endian, and no struct
 * has holes.  docs/guest-names.md says who sends what, and when.
 *
 * Times are values of the guest's TSC, as TIME events of a trace have them.
 */

#ifndef BACKTRAIL_GUEST_NAMES_H
#define BACKTRAIL_GUEST_NAMES_H

#include <stdint.h>

/* The port's name, which the guest finds below /dev/virtio-ports */
#define BTRAIL_GUEST_PORT           "org.backtrail.guest.0"

#define BTRAIL_GUEST_VERSION        1

/* "\xb7btrgst\n": HELLO begins with it, so that a peer finds the beginning */
#define BTRAIL_GUEST_MAGIC          UINT64_C(0x0a747367727462b7)

/* The most bytes after a header, and of each text */
#define BTRAIL_GUEST_MESSAGE_MAX    (64u << 10)
#define BTRAIL_GUEST_PATH_MAX       4096u
#define BTRAIL_GUEST_COMM_MAX       64u
#define BTRAIL_GUEST_COMMAND_MAX    4096u
#define BTRAIL_GUEST_BUILD_ID_MAX   32u
#define BTRAIL_GUEST_RELEASE_MAX    128u
/* Of the guest: those with higher numbers are not reported */
#define BTRAIL_GUEST_CPUS_MAX       1024u
/* Of a file that is sent */
#define BTRAIL_GUEST_FILE_MAX       (256u << 20)
/* Of a SWITCHES message */
#define BTRAIL_GUEST_SWITCHES_MAX   4000u

struct btrail_guest_header {
    uint32_t size;
    uint16_t type;
    uint16_t reserved;
};

/*
 * From the agent
 */

/**
 * enum btrail_guest_request - types of the agent's messages
 * @BTRAIL_GUEST_OPEN: struct btrail_guest_open; first.  What was before is
 *                     forgotten
 * @BTRAIL_GUEST_LIST: nothing follows: list all processes again
 * @BTRAIL_GUEST_FLUSH: nothing follows: send what has happened so far
 * @BTRAIL_GUEST_CLOSE: nothing follows: send nothing from here on
 * @BTRAIL_GUEST_FILE: struct btrail_guest_file: send a file; one at a time
 */
enum btrail_guest_request {
    BTRAIL_GUEST_OPEN = 1,
    BTRAIL_GUEST_LIST = 2,
    BTRAIL_GUEST_FLUSH = 3,
    BTRAIL_GUEST_CLOSE = 4,
    BTRAIL_GUEST_FILE = 5,
};

/* What the agent wants beside processes */
#define BTRAIL_GUEST_WANT_SWITCHES  1u
#define BTRAIL_GUEST_WANT_SYMBOLS   2u
#define BTRAIL_GUEST_WANT_FUNCTIONS 4u
/* Files and nothing else: processes are neither listed nor followed. */
#define BTRAIL_GUEST_WANT_FILES     8u

/**
 * struct btrail_guest_open - the agent is there
 * @nonce: any number; HELLO has it, too
 * @wants: BTRAIL_GUEST_WANT_*
 */
struct btrail_guest_open {
    uint64_t magic;
    uint64_t nonce;
    uint32_t version;
    uint32_t wants;
};

/**
 * struct btrail_guest_file - a program or library is wanted
 * @pid: of a process that may still see it, or 0
 * @path_size, @build_id_size: bytes that follow, of its path and of the build-id
 *       that it must have
 */
struct btrail_guest_file {
    uint32_t pid;
    uint32_t path_size;
    uint32_t build_id_size;
    uint32_t reserved;
};

/*
 * From the guest
 */

enum btrail_guest_type {
    BTRAIL_GUEST_HELLO = 1,
    BTRAIL_GUEST_LISTING = 2,
    BTRAIL_GUEST_PROCESS = 3,
    BTRAIL_GUEST_THREAD = 4,
    BTRAIL_GUEST_MAPPING = 5,
    BTRAIL_GUEST_FORK = 6,
    BTRAIL_GUEST_EXIT = 7,
    BTRAIL_GUEST_NAME = 8,
    BTRAIL_GUEST_SWITCHES = 9,
    BTRAIL_GUEST_UP_TO = 10,
    BTRAIL_GUEST_LOST = 11,
    BTRAIL_GUEST_SYMBOLS = 12,
    BTRAIL_GUEST_FUNCTIONS = 13,
    BTRAIL_GUEST_FLUSHED = 14,
    BTRAIL_GUEST_CONTENT = 15,
};

/*
 * What the guest can say: events of its kernel as they happen, which task each
 * CPU runs; user mode has page tables of its own
 */
#define BTRAIL_GUEST_HAS_EVENTS     1u
#define BTRAIL_GUEST_HAS_SWITCHES   2u
#define BTRAIL_GUEST_HAS_PTI        4u

/**
 * struct btrail_guest_hello - the reply to OPEN, before all else
 * @flags:        BTRAIL_GUEST_HAS_*
 * @cpus:         how many the guest has
 * @release_size: bytes that follow: the kernel's release
 */
struct btrail_guest_hello {
    uint64_t magic;
    uint64_t nonce;
    uint32_t version;
    uint32_t flags;
    uint32_t cpus;
    uint32_t release_size;
};

/**
 * struct btrail_guest_listing - processes are listed
 * @time: now
 * @end:  0: PROCESS, THREAD and MAPPING messages of all processes follow.  1:
 *        they were all; other messages have come between them
 * @reserved: 0
 */
struct btrail_guest_listing {
    uint64_t time;
    uint32_t end;
    uint32_t reserved;
};

/* A process has no address space of its own: it is the kernel's. */
#define BTRAIL_GUEST_PROCESS_KERNEL 1u

/**
 * struct btrail_guest_process - what a process is like
 * @time:       when that was so
 * @begin:      by the TSC, it has been there since then at least; 0 if that is
 *              not known
 * @start_time: when it was created: nanoseconds of the guest's clock since boot
 * @pid, @parent: numbers
 * @flags:      BTRAIL_GUEST_PROCESS_*
 * @comm_size, @exe_size, @command_size: bytes that follow, of its name, the
 *              path of its program, and its arguments as /proc/PID/cmdline has
 *              them
 *
 * MAPPING and THREAD messages with the same pid and time follow, of all that it
 * has mapped for execution and of all its threads.
 */
struct btrail_guest_process {
    uint64_t time;
    uint64_t begin;
    uint64_t start_time;
    uint32_t pid;
    uint32_t parent;
    uint32_t flags;
    uint32_t comm_size;
    uint32_t exe_size;
    uint32_t command_size;
};

/**
 * struct btrail_guest_thread - a thread of a process
 * @comm_size: bytes that follow: its name
 */
struct btrail_guest_thread {
    uint64_t time;
    uint64_t start_time;
    uint32_t pid;
    uint32_t tid;
    uint32_t comm_size;
    uint32_t reserved;
};

/**
 * struct btrail_guest_mapping - a process has this mapped for execution
 * @time:  since then, or, as part of a description, at that time
 * @start, @end: addresses
 * @offset: in the file, in bytes
 * @flags: BTRAIL_MAPPING_* of names.h
 * @path_size, @build_id_size: bytes that follow, of the file's path or another
 *         name as in /proc/PID/maps, and of its build-id, 0 if it is not known
 */
struct btrail_guest_mapping {
    uint64_t time;
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    uint32_t pid;
    uint32_t flags;
    uint32_t path_size;
    uint32_t build_id_size;
};

/* A task has been made: a process if @pid is not @parent, else a thread */
struct btrail_guest_fork {
    uint64_t time;
    uint32_t pid;
    uint32_t tid;
    uint32_t parent;
    uint32_t parent_tid;
};

/* A task has ended; its process has, if @tid is @pid */
struct btrail_guest_exit {
    uint64_t time;
    uint32_t pid;
    uint32_t tid;
};

/* The task runs another program now, and all its mappings are gone. */
#define BTRAIL_GUEST_NAME_EXEC      1u

/* A task has another name, @comm_size bytes that follow */
struct btrail_guest_name {
    uint64_t time;
    uint32_t pid;
    uint32_t tid;
    uint32_t flags;
    uint32_t comm_size;
};

/*
 * A CPU runs a task from a time on; pid and tid are 0 if it is idle, or between
 * two tasks for more than 20 us
 */
struct btrail_guest_switch {
    uint64_t time;
    uint32_t pid;
    uint32_t tid;
};

/* @n struct btrail_guest_switch of a CPU follow, in the order of time */
struct btrail_guest_switches {
    uint32_t cpu;
    uint32_t n;
};

/* All that has happened before this time was sent, or is lost */
struct btrail_guest_up_to {
    uint64_t time;
};

/* The reply to FLUSH: all that has happened before this time was sent */
struct btrail_guest_flushed {
    uint64_t time;
};

/* What is lost: events of tasks, switches, or parts of a list */
enum btrail_guest_lost_what {
    BTRAIL_GUEST_LOST_EVENTS = 1,
    BTRAIL_GUEST_LOST_SWITCHES = 2,
    BTRAIL_GUEST_LOST_LIST = 3,
};

/* @n of @what were left out since the last such message */
struct btrail_guest_lost {
    uint64_t time;
    uint64_t n;
    uint32_t what;
    uint32_t reserved;
};

/* These are the first symbols, or the last ones, of a table. */
#define BTRAIL_GUEST_SYMBOLS_BEGIN  1u
#define BTRAIL_GUEST_SYMBOLS_END    2u
/* The most bytes of a table */
#define BTRAIL_GUEST_SYMBOLS_MAX    (16u << 20)

/* Whole lines of /proc/kallsyms follow */
struct btrail_guest_symbols {
    uint32_t flags;
    uint32_t size;
};

/* These are the first functions of a process: what was said before is void. */
#define BTRAIL_GUEST_FUNCTIONS_BEGIN    1u

/**
 * struct btrail_guest_functions - functions that a process has compiled
 * @time: when they were read
 * @size: bytes that follow: whole lines of a perf-PID.map, which have an
 *        address and a size in hexadecimal, and a name up to the line's end
 */
struct btrail_guest_functions {
    uint64_t time;
    uint32_t pid;
    uint32_t flags;
    uint32_t size;
    uint32_t reserved;
};

/* Why a file is not sent, or not any further */
enum btrail_guest_content_error {
    BTRAIL_GUEST_CONTENT_NONE = 1,      /* there is none with this build-id */
    BTRAIL_GUEST_CONTENT_LARGE = 2,     /* above BTRAIL_GUEST_FILE_MAX */
    BTRAIL_GUEST_CONTENT_FAILED = 3,    /* it cannot be read */
};

/**
 * struct btrail_guest_content - the reply to FILE, a piece after the other
 * @at:    where the piece begins
 * @total: size of the file
 * @error: 0, or enum btrail_guest_content_error: then nothing more comes
 * @size:  bytes that follow
 */
struct btrail_guest_content {
    uint64_t at;
    uint64_t total;
    uint32_t error;
    uint32_t size;
};

#endif /* BACKTRAIL_GUEST_NAMES_H */
