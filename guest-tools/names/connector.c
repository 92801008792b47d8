/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's process connector: see connector.h
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connector.h"

/* As many events as wait while this program gets no CPU */
#define BUFFER  (4 << 20)
#define READS   4096

struct connector {
    int sock;
};

/* Begins or ends to listen. */
static bool control(int sock, enum proc_cn_mcast_op op)
{
    struct {
        struct nlmsghdr header;
        struct cn_msg message;
        enum proc_cn_mcast_op op;
    } __attribute__((packed)) request = {
        .header = {
            .nlmsg_len = sizeof(request),
            .nlmsg_type = NLMSG_DONE,
        },
        .message = {
            .id = { CN_IDX_PROC, CN_VAL_PROC },
            .len = sizeof(op),
        },
        .op = op,
    };

    return send(sock, &request, sizeof(request), 0) == sizeof(request);
}

struct connector *connector_open(void)
{
    struct connector *c = calloc(1, sizeof(*c));
    const struct sockaddr_nl address = {
        .nl_family = AF_NETLINK, .nl_groups = CN_IDX_PROC,
    };
    const int size = BUFFER;

    if (!c) {
        return NULL;
    }
    c->sock = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                     NETLINK_CONNECTOR);
    if (c->sock >= 0 &&
        !bind(c->sock, (const struct sockaddr *)&address, sizeof(address))) {
        setsockopt(c->sock, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
        if (control(c->sock, PROC_CN_MCAST_LISTEN)) {
            return c;
        }
    }
    connector_close(c);
    return NULL;
}

void connector_close(struct connector *c)
{
    if (c) {
        if (c->sock >= 0) {
            control(c->sock, PROC_CN_MCAST_IGNORE);
            close(c->sock);
        }
        free(c);
    }
}

int connector_fd(const struct connector *c)
{
    return c->sock;
}

/* The name of a task as it is now */
static uint32_t read_comm(uint32_t pid, uint32_t tid, char *comm, size_t size)
{
    char path[64];
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", pid, tid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? 0 : read(fd, comm, size);
    if (fd >= 0) {
        close(fd);
    }
    /* A newline ends it. */
    return n > 1 ? (uint32_t)n - 1 : 0;
}

/* Converts an event; false if it says nothing that is sent. */
static bool convert(const struct proc_event *from, struct batch_event *to,
                    char *comm)
{
    to->ns = from->timestamp_ns;
    switch (from->what) {
    case PROC_EVENT_FORK:
        to->type = BTRAIL_GUEST_FORK;
        to->size = sizeof(to->fork);
        to->fork = (struct btrail_guest_fork) {
            .pid = (uint32_t)from->event_data.fork.child_tgid,
            .tid = (uint32_t)from->event_data.fork.child_pid,
            .parent = (uint32_t)from->event_data.fork.parent_tgid,
            .parent_tid = (uint32_t)from->event_data.fork.parent_pid,
        };
        /* Of a thread it is the process's own parent. */
        if (to->fork.tid != to->fork.pid) {
            to->fork.parent = to->fork.pid;
        }
        return true;
    case PROC_EVENT_EXIT:
        to->type = BTRAIL_GUEST_EXIT;
        to->size = sizeof(to->exit);
        to->exit = (struct btrail_guest_exit) {
            .pid = (uint32_t)from->event_data.exit.process_tgid,
            .tid = (uint32_t)from->event_data.exit.process_pid,
        };
        return true;
    case PROC_EVENT_EXEC:
    case PROC_EVENT_COMM:
        to->type = BTRAIL_GUEST_NAME;
        to->size = sizeof(to->name);
        /* Both have the numbers at the same place. */
        to->name = (struct btrail_guest_name) {
            .pid = (uint32_t)from->event_data.exec.process_tgid,
            .tid = (uint32_t)from->event_data.exec.process_pid,
            .flags = from->what == PROC_EVENT_EXEC ?
                     BTRAIL_GUEST_NAME_EXEC : 0,
        };
        to->name.comm_size = read_comm(to->name.pid, to->name.tid, comm,
                                       BTRAIL_GUEST_COMM_MAX);
        return true;
    default:
        return false;
    }
}

void connector_read(struct connector *c, struct batch *batch,
                    struct outbox *out, events_exec_fn *exec, void *opaque)
{
    struct {
        struct nlmsghdr header;
        struct cn_msg message;
        struct proc_event event;
    } __attribute__((packed)) got;
    ssize_t n = 1;

    for (unsigned i = 0; i < READS && n > 0; i++) {
        struct batch_event event = { 0 };
        struct proc_event from;
        char comm[BTRAIL_GUEST_COMM_MAX];
        uint32_t size;

        memset(&got, 0, sizeof(got));
        n = recv(c->sock, &got, sizeof(got), 0);
        memcpy(&from, &got.event, sizeof(from));
        if (n < 0 && errno == ENOBUFS) {
            outbox_lost(out, BTRAIL_GUEST_LOST_EVENTS, 1);
            n = 1;
        } else if (n > 0 && got.message.id.idx == CN_IDX_PROC &&
                   convert(&from, &event, comm)) {
            bool name = event.type == BTRAIL_GUEST_NAME;

            size = name ? event.name.comm_size : 0;
            if (!batch_add(batch, &event, (struct outbox_text) { comm, size },
                           (struct outbox_text) { 0 })) {
                outbox_lost(out, BTRAIL_GUEST_LOST_EVENTS, 1);
            }
            if (name && event.name.flags) {
                exec(opaque, event.name.pid);
            }
        }
    }
}
