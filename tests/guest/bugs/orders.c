/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * orders: a use after free.
 *
 * Orders wait in a queue, and some are cancelled before it is their turn.  One
 * that is the last of the queue is freed, but stays in it.  What is allocated
 * next gets its memory, long before the queue comes to it.
 */

#include <stdio.h>
#include <stdlib.h>

#include "../workload.h"

#define ORDERS  40
#define LAST    (ORDERS - 1)

struct customer {
    const char *name;
    uint64_t paid;
};

struct order {
    struct customer *customer;
    uint64_t amount;
    struct order *next;
};

/* As large as an order */
struct note {
    uint64_t number;
    uint64_t sum;
    uint64_t length;
};

static struct customer customers[] = { { "first", 0 }, { "second", 0 } };
static struct order *queue, **tail = &queue;
static struct note *note;

static struct order *add_order(struct customer *customer, uint64_t amount)
{
    struct order *order = malloc(sizeof(*order));

    *order = (struct order) { customer, amount, NULL };
    *tail = order;
    tail = &order->next;
    return order;
}

static void cancel_order(struct order *order)
{
    struct order **p = &queue;

    while (*p != order) {
        p = &(*p)->next;
    }
    if (order->next) {
        *p = order->next;
    }
    free(order);
}

static void take_note(uint64_t number, uint64_t sum)
{
    note = malloc(sizeof(*note));
    note->number = number;
    note->sum = sum;
    note->length = sizeof(*note);
}

/* What takes the time */
static uint64_t audit(struct workload *w)
{
    uint64_t state = 1;

    for (int i = 0; i < 1000000; i++) {
        workload_add(w, workload_random(&state));
    }
    return w->sum;
}

static void settle(struct order *order)
{
    order->customer->paid += order->amount;
}

int main(int argc, char **argv)
{
    struct workload w;
    struct order *order, *cancelled[2] = { NULL, NULL };

    workload_begin(&w, "orders", argc, argv);
    for (uint64_t i = 0; i < ORDERS; i++) {
        order = add_order(&customers[i % 2], 100 + i);
        if (i == ORDERS / 2 || i == LAST) {
            cancelled[i == LAST] = order;
        }
    }
    cancel_order(cancelled[0]);
    cancel_order(cancelled[1]);
    take_note(4711, w.sum);
    audit(&w);
    for (order = queue; order; order = order->next) {
        settle(order);
    }
    workload_add(&w, customers[0].paid);
    workload_add(&w, customers[1].paid);
    return workload_end(&w);
}
