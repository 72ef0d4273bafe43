"""Carrying out tasks on Ray: on the cores of this machine, or on a cluster of them."""


